import torchvision

from responsive import image, responsive


def delegate_doctor_model():
    return responsive(torchvision.models.inception_v3(weights=None, init_weights=False, aux_logits=False, transform_input=False), image(299))


def delegate_doctor_inputs():
    return (image(299),)
