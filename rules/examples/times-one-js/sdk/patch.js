// Collects the edits of a rewrite and refuses the ones that cannot be meant.

import { Fault } from "./answers.js";

/** A value of the site, or one that a patch makes. */
class Ref {
    constructor(patch, raw) {
        this.patch = patch;
        this.raw = raw;
    }
}

/**
 * The edits of one rewrite. New nodes are placed before the anchor in the order they are made. Made by
 * `site.patch()`; a mistake is thrown at once.
 */
export class Patch {
    #site;
    #edits = [];
    #replaced = new Set();
    #nodes = 0;

    constructor(site) {
        this.#site = site;
    }

    /** A value of the site, to be used by new nodes. */
    tap(value) {
        if (value === undefined || this.#site.value(value.id) !== value) {
            throw new Fault("the value is not one of this site");
        }
        return new Ref(this, { tag: "existing", val: value.id });
    }

    /** Starts a new node: `patch.node("aten.reshape.default").value("self", x).ints("shape", [2, -1]).add()`. */
    node(op) {
        return new NewNode(this, op);
    }

    /** Another output of the node that `created` belongs to. */
    output(created, output) {
        const raw = this.use(created);
        if (raw.tag !== "created") {
            throw new Fault("the value is not made by this patch and has no other output here");
        }
        return new Ref(this, { tag: "created", val: { insertion: raw.val.insertion, output } });
    }

    /** Every use of `value`, also as an output of the program, becomes a use of `by`. */
    replace(value, by) {
        const raw = this.use(by);
        if (this.#replaced.has(value.id)) {
            throw new Fault(`value ${value.id} is replaced twice`);
        }
        if (raw.tag === "existing" && raw.val === value.id) {
            throw new Fault(`value ${value.id} is replaced by itself`);
        }
        this.#replaced.add(value.id);
        this.#edits.push({ tag: "replace-all-uses", val: { value: value.id, by: raw } });
    }

    /** One use, an entry of `site.raw.uses`, becomes a use of `by`. */
    replaceUse(useSite, by) {
        this.#edits.push({ tag: "replace-use", val: { useSite, by: this.use(by) } });
    }

    /** One argument of a node of the site becomes another value. */
    setInput(node, input, by) {
        if (!node.argument(input)) {
            throw new Fault(`${node.op} has no argument \`${input}\``);
        }
        const operand = { tag: "value", val: this.use(by) };
        this.#edits.push({ tag: "set-input", val: { node: node.id, input, operand } });
    }

    /** Removes a node whose outputs were replaced or never used. */
    delete(node) {
        for (const id of node.raw.outputs) {
            if (this.#site.value(id)?.useCount !== 0 && !this.#replaced.has(id)) {
                throw new Fault(`${node.op} is deleted while its output ${id} is still used`);
            }
        }
        this.#edits.push({ tag: "delete", val: node.id });
    }

    /** Has the host compute a value that depends on constants only, once, and store it. */
    fold(value) {
        const raw = this.use(value);
        if (raw.tag === "existing" && !this.#site.value(raw.val)?.isConstant) {
            throw new Fault(`value ${raw.val} is folded but does not depend on constants only`);
        }
        this.#edits.push({ tag: "fold", val: raw });
        return value;
    }

    /** The rewrite, with its claim and the reason it is proposed for. */
    finish(numerics, code, why) {
        if (this.#edits.length === 0) {
            throw new Fault("the rewrite holds no edit");
        }
        return { edits: this.#edits, numerics, why: { code, message: why }, hints: [] };
    }

    /** For new nodes: the contract's form of a value of this patch. */
    use(ref) {
        if (!(ref instanceof Ref) || ref.patch !== this) {
            throw new Fault("that is no value of this patch; `tap` makes one of a value of the site");
        }
        return ref.raw;
    }

    /** For new nodes: puts one into the patch. */
    insert(op, inputs) {
        this.#edits.push({ tag: "insert", val: { op, inputs, expect: [] } });
        return new Ref(this, { tag: "created", val: { insertion: this.#nodes++, output: 0 } });
    }
}

/** A node in the making; arguments by the schema's names, those that are left out take the default. */
class NewNode {
    #patch;
    #op;
    #inputs = [];

    constructor(patch, op) {
        this.#patch = patch;
        this.#op = op;
    }

    #argument(name, operand) {
        if (this.#inputs.some((input) => input.name === name)) {
            throw new Fault(`argument \`${name}\` of ${this.#op} is given twice`);
        }
        this.#inputs.push({ name, operand });
        return this;
    }

    #literal(name, tag, val) {
        return this.#argument(name, { tag: "literal", val: val === undefined ? { tag } : { tag, val } });
    }

    #whole(name, number) {
        const whole = Number(number);
        if (!Number.isSafeInteger(whole)) {
            throw new Fault(`argument \`${name}\` of ${this.#op} is ${number}, which is no integer below 2^53`);
        }
        return whole;
    }

    value(name, ref) {
        return this.#argument(name, { tag: "value", val: this.#patch.use(ref) });
    }

    values(name, refs) {
        return this.#argument(name, { tag: "values", val: refs.map((ref) => this.#patch.use(ref)) });
    }

    none(name) {
        return this.#literal(name, "none");
    }

    int(name, number) {
        return this.#literal(name, "int", this.#whole(name, number));
    }

    ints(name, numbers) {
        return this.#literal(name, "ints", Array.from(numbers, (number) => this.#whole(name, number)));
    }

    float(name, number) {
        return this.#literal(name, "float", Number(number));
    }

    floats(name, numbers) {
        return this.#literal(name, "floats", Array.from(numbers, Number));
    }

    boolean(name, truth) {
        return this.#literal(name, "boolean", Boolean(truth));
    }

    text(name, text) {
        return this.#literal(name, "text", String(text));
    }

    dtype(name, dtype) {
        return this.#literal(name, "dtype", dtype);
    }

    /** Puts the node into the patch; the answer is its first output. */
    add() {
        return this.#patch.insert(this.#op, this.#inputs);
    }
}
