// What the author of a repair rule in JavaScript depends on.
//
// A rule is what `define` gives back: what the rule is, and `examine`, which answers for one place of a
// graph. Views decline by themselves when an argument is not what was asked for; whatever else is thrown
// becomes the rule's complaint about itself, with the line. Integers of the contract are numbers here:
// beyond 2^53 they are rounded, so compare with them, but do not count on every digit.

import { Decline, Fault } from "./answers.js";
import { Patch } from "./patch.js";
import { Site } from "./views.js";

export { Decline, Fault, Patch, Site };

/** The same bits for every input. */
export const exact = { tag: "exact" };

/** The same up to rounding, relative to the scale of the output. */
export function tolerant(rtol, atol) {
    return { tag: "tolerant", val: { rtol, atol } };
}

/** Repairs a lowering that computes something else. */
export function corrective(rtol, atol) {
    return { tag: "corrective", val: { rtol, atol } };
}

/** Declines unless the condition holds. */
export function require(condition, code, message) {
    if (!condition) {
        throw new Decline(code, message);
    }
}

/** Declines. */
export function decline(code, message) {
    throw new Decline(code, message);
}

/**
 * Nodes of one op, or of a list of ops. `producers` and `consumers` say how many producers of producers
 * and consumers of consumers to show; `fedBy` maps an argument to the ops that must return it.
 */
export function anchor(ops, { producers = 0, consumers = 0, fedBy = {}, onlyOutsideDelegate = false } = {}) {
    return {
        ops: [].concat(ops),
        producers: Object.entries(fedBy).map(([input, sources]) => ({ input, ops: [].concat(sources) })),
        producerDepth: producers,
        consumerDepth: consumers,
        onlyOutsideDelegate,
    };
}

// Codes that the views decline with; they join every manifest.
const STANDARD_CODES = {
    "argument": "an argument has a form that the rule does not read",
    "not-a-tensor": "a value that should be a tensor is something else",
    "dynamic-shape": "a size that must be known varies from run to run",
    "cut-short": "the surroundings that the rule needs lie outside the site",
};

/**
 * Makes a rule. It is called once, while the component is built, so a mistake here ends the build.
 */
export function define({
    id,
    version,
    title,
    summary = "",
    preview = false,
    numerics = exact,
    backends = [],
    anchors = [],
    codes = {},
    examine,
}) {
    for (const [name, text] of Object.entries({ id, version, title, summary })) {
        if (typeof text !== "string") {
            throw new TypeError(`\`${name}\` of the rule is not a text`);
        }
    }
    if (typeof examine !== "function") {
        throw new TypeError("`examine` of the rule is not a function");
    }
    const manifest = {
        id,
        version,
        title,
        summary,
        stability: preview ? "preview" : "stable",
        numerics,
        backends,
        anchors,
        codes: Object.entries({ ...STANDARD_CODES, ...codes }).map(([code, meaning]) => ({ code, summary: meaning })),
        hints: [],
    };
    return {
        describe: () => manifest,
        examine(raw) {
            try {
                const rewrite = examine(new Site(raw));
                if (!(rewrite && Array.isArray(rewrite.edits))) {
                    throw new Fault("`examine` gave nothing back; it ends with `return patch.finish(…)`, or declines");
                }
                return { tag: "rewrite", val: rewrite };
            } catch (problem) {
                if (problem instanceof Decline) {
                    return { tag: "decline", val: { code: problem.code, message: problem.message } };
                }
                // A text that is thrown becomes the error of the contract.
                throw told(problem);
            }
        },
    };
}

/** What was thrown, with the line of the rule that it came from. */
function told(problem) {
    if (!(problem instanceof Error)) {
        return `it threw ${String(problem)}`;
    }
    const lines = String(problem.stack ?? "").split("\n");
    const place = lines.map((line) => /([^\s(/]+\.m?js:\d+)/.exec(line.includes("/sdk/") ? "" : line)?.[1]).find(Boolean);
    const kind = problem instanceof Fault ? "" : `${problem.name}: `;
    return `${place ? `${place}: ` : ""}${kind}${problem.message}`;
}
