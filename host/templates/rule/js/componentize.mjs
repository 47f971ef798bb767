// Makes the component; run in the rule's folder. Arguments: the folder where componentize-qjs is installed,
// and the file to write.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [tools, output] = process.argv.slice(2);
const { componentize } = createRequire(resolve(tools, "here.js"))("componentize-qjs");

try {
    const { component } = await componentize({
        witPath: resolve("sdk/wit"),
        world: "repair-rule",
        jsSource: readFileSync("rule.js", "utf8"),
        jsPath: resolve("rule.js"),
        moduleRoot: resolve("."),
        // No clock, no files, nothing: what would ask for them is a trap.
        stubWasi: true,
        sync: true,
    });
    writeFileSync(output, component);
} catch (problem) {
    // The engine knows the rule's folder as `/`.
    console.error(String(problem.message).replace(/^: /, "").replaceAll(/(\s|\()\/(?=[^\s/])/g, "$1"));
    process.exitCode = 1;
}
