"""Why a rule hands back no rewrite."""


class Decline(Exception):
    """It has nothing to offer here, for one of the manifest's codes."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class Fault(Exception):
    """It is wrong about itself, or was shown something that breaks the contract."""


def decline(code: str, message: str):
    """Declines."""
    raise Decline(code, message)


def require(condition: object, code: str, message: str) -> None:
    """Declines unless the condition holds."""
    if not condition:
        raise Decline(code, message)
