import timm

from responsive import image, responsive


def delegate_doctor_model():
    return responsive(timm.create_model("ghostnet_100", pretrained=False), image(224))


def delegate_doctor_inputs():
    return (image(224),)
