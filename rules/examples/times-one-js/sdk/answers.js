// Why a rule hands back no rewrite.

/** It has nothing to offer here, for one of the manifest's codes. */
export class Decline extends Error {
    constructor(code, message) {
        super(message);
        this.name = "Decline";
        this.code = code;
    }
}

/** It is wrong about itself, or was shown something that breaks the contract. */
export class Fault extends Error {
    constructor(message) {
        super(message);
        this.name = "Fault";
    }
}
