import torchvision

from responsive import image, responsive


def delegate_doctor_model():
    return responsive(torchvision.models.vit_b_16(weights=None), image(224))


def delegate_doctor_inputs():
    return (image(224),)
