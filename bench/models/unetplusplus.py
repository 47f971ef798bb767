import segmentation_models_pytorch as smp

from responsive import image, responsive


def delegate_doctor_model():
    model = smp.UnetPlusPlus("resnet18", encoder_weights=None, classes=21, activation="softmax2d")
    return responsive(model, image(256))


def delegate_doctor_inputs():
    return (image(256),)
