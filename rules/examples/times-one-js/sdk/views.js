// Typed views of a site: what an argument or a shape is, or a decline that says what it is not.

import { Decline, Fault } from "./answers.js";
import { Patch } from "./patch.js";

const KINDS = {
    "none": "None",
    "int": "an integer",
    "ints": "a list of integers",
    "sym-int": "a size that varies",
    "sym-ints": "a list with sizes that vary",
    "float": "a number",
    "floats": "a list of numbers",
    "boolean": "a boolean",
    "booleans": "a list of booleans",
    "text": "a text",
    "texts": "a list of texts",
    "dtype": "an element type",
    "memory-format": "a memory format",
    "device": "a device",
    "layout": "a layout",
    "other": "something that the contract does not name",
};

/** One place of a graph. */
export class Site {
    #nodes = new Map();
    #values = new Map();

    constructor(raw) {
        /** Everything, as the contract has it. */
        this.raw = raw;
        this.nodes = raw.nodes.map((node) => new Node(this, node));
        for (const node of this.nodes) {
            this.#nodes.set(node.id, node);
        }
        for (const value of raw.values) {
            this.#values.set(value.id, new Value(this, value));
        }
    }

    /** The node that matched. */
    get anchor() {
        const anchor = this.node(this.raw.anchor);
        if (!anchor) {
            throw new Fault(`the site's anchor ${this.raw.anchor} is not one of its nodes`);
        }
        return anchor;
    }

    /** A node by id; undefined when the site does not show it. */
    node(id) {
        return this.#nodes.get(id);
    }

    /** A value by id. */
    value(id) {
        return this.#values.get(id);
    }

    /** Collects the edits of a rewrite. */
    patch() {
        return new Patch(this);
    }
}

/** A node of a site. */
export class Node {
    #site;

    constructor(site, raw) {
        this.#site = site;
        /** Everything, as the contract has it. */
        this.raw = raw;
        this.id = raw.id;
        /** Full overload name, e.g. `aten.softmax.int`. */
        this.op = raw.op;
        /** The backend did not take it. */
        this.isOutsideDelegate = raw.outsideDelegate;
        this.outputCount = raw.outputs.length;
    }

    /** An argument as the contract has it: `{ tag, val }`; undefined when there is none. */
    argument(name) {
        return this.raw.inputs.find((input) => input.name === name)?.argument;
    }

    #literal(name) {
        const argument = this.argument(name);
        return argument?.tag === "literal" ? argument.val : undefined;
    }

    #unreadable(name, wanted) {
        const argument = this.argument(name);
        const found = !argument ? "missing" : argument.tag === "literal" ? KINDS[argument.val.tag] : "computed by the graph";
        return new Decline("argument", `argument \`${name}\` of ${this.op} is not ${wanted} but ${found}`);
    }

    /** True when the argument is absent or None. */
    isNone(name) {
        return !this.argument(name) || this.#literal(name)?.tag === "none";
    }

    /** An integer; declines when the argument is something else. */
    int(name) {
        const literal = this.#literal(name);
        if (literal?.tag === "int") {
            return literal.val;
        }
        if (literal?.tag === "sym-int" && literal.val.tag === "fixed") {
            return literal.val.val;
        }
        throw this.#unreadable(name, "an integer");
    }

    /** A list of known integers; a single one counts as a list. */
    ints(name) {
        const literal = this.#literal(name);
        if (literal?.tag === "ints") {
            return Array.from(literal.val);
        }
        if (literal?.tag === "sym-ints" && literal.val.every((dim) => dim.tag === "fixed")) {
            return literal.val.map((dim) => dim.val);
        }
        if (literal?.tag === "int" || literal?.tag === "sym-int") {
            return [this.int(name)];
        }
        throw this.#unreadable(name, "a list of known integers");
    }

    /** A number; integers count. */
    float(name) {
        const literal = this.#literal(name);
        if (literal?.tag === "float" || literal?.tag === "int") {
            return literal.val;
        }
        throw this.#unreadable(name, "a number");
    }

    /** A list of numbers; a single one counts as a list. */
    floats(name) {
        const literal = this.#literal(name);
        return literal?.tag === "floats" ? Array.from(literal.val) : [this.float(name)];
    }

    /** A boolean. */
    boolean(name) {
        return this.#of(name, "boolean", "a boolean");
    }

    /** A text. */
    text(name) {
        return this.#of(name, "text", "a text");
    }

    /** An element type: `float32`, `int64`, … */
    dtype(name) {
        return this.#of(name, "dtype", "an element type");
    }

    #of(name, kind, words) {
        const literal = this.#literal(name);
        if (literal?.tag !== kind) {
            throw this.#unreadable(name, words);
        }
        return literal.val;
    }

    /** An argument that is one value of the graph. */
    tensor(name) {
        const argument = this.argument(name);
        if (argument?.tag !== "value") {
            throw this.#unreadable(name, "a value of the graph");
        }
        return this.#known(argument.val);
    }

    /** An argument that is a list of values. */
    tensors(name) {
        const argument = this.argument(name);
        if (argument?.tag !== "values") {
            throw this.#unreadable(name, "a list of values of the graph");
        }
        return Array.from(argument.val, (id) => this.#known(id));
    }

    /** One of the tensors that the node returns. */
    output(index) {
        if (!(index in this.raw.outputs)) {
            throw new Decline("argument", `${this.op} has no output ${index}`);
        }
        return this.#known(this.raw.outputs[index]);
    }

    #known(id) {
        const value = this.#site.value(id);
        if (!value) {
            throw new Fault(`${this.op} mentions value ${id}, which the site lacks`);
        }
        return value;
    }
}

/** A value that a node of the site takes or returns. */
export class Value {
    #site;

    constructor(site, raw) {
        this.#site = site;
        /** Everything, as the contract has it. */
        this.raw = raw;
        this.id = raw.id;
        /** How often the whole graph uses it, graph outputs included. */
        this.useCount = raw.useCount;
        /** The program returns it. */
        this.isGraphOutput = raw.isGraphOutput;
        /** Something writes to its memory, at any time of the run. */
        this.isMutated = raw.isMutated;
        /** Another value of the graph may share its memory. */
        this.isAliased = raw.isAliased;
        /** It depends on constants only. */
        this.isConstant = raw.isConstant;
        /** The caller, the state or a constant gives it: no node returns it. */
        this.isGraphInput = raw.source.tag !== "node";
    }

    /** The node that returns it; undefined when the site does not show it. */
    get producer() {
        return this.isGraphInput ? undefined : this.#site.node(this.raw.source.val);
    }

    /** What is known about it as a tensor; declines when it is none. */
    get tensor() {
        if (!this.raw.meta) {
            throw new Decline("not-a-tensor", `value ${this.id} is not a tensor`);
        }
        return new Tensor(this.raw.meta);
    }
}

/** A value that is known to be a tensor. */
export class Tensor {
    constructor(raw) {
        /** Everything, as the contract has it. */
        this.raw = raw;
        /** `float32`, `int64`, … */
        this.dtype = raw.dtype;
        this.rank = raw.sizes.length;
    }

    /** One size; undefined when it varies or the dimension is not there. */
    size(dim) {
        const size = this.raw.sizes[dim];
        return size?.tag === "fixed" ? size.val : undefined;
    }

    /** All sizes; declines when one varies from run to run. */
    get sizes() {
        return this.raw.sizes.map((size, dim) => {
            if (size.tag !== "fixed") {
                throw new Decline("dynamic-shape", `size ${dim} of a tensor varies`);
            }
            return size.val;
        });
    }

    /** `dim` counted from the front; undefined when it is out of range. */
    dimension(dim) {
        const front = dim < 0 ? dim + this.rank : dim;
        return front >= 0 && front < this.rank ? front : undefined;
    }

    /** The same sizes, element type and device; varying sizes by their text. */
    sameSizes(other) {
        const text = ({ sizes, dtype, device }) =>
            JSON.stringify([dtype, device, sizes.map((size) => size.val?.expression ?? size.val)]);
        return text(this.raw) === text(other.raw);
    }

    /** Row-major without gaps. */
    get isContiguous() {
        let expected = 1;
        for (let dim = this.rank - 1; dim >= 0; dim--) {
            const [size, stride] = [this.size(dim), this.raw.strides[dim]];
            if (size !== 1 && !(stride?.tag === "fixed" && stride.val === expected)) {
                return false;
            }
            expected = size === undefined ? undefined : expected * size;
        }
        return true;
    }
}
