// Makes the component: `rules build` runs this in the rule's folder with Node.js. Arguments: the folder
// where componentize-qjs is installed, and the file to write.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [tools, output] = process.argv.slice(2);
const { componentize } = createRequire(resolve(tools, "here.js"))("componentize-qjs");

const { component } = await componentize({
    witPath: resolve("sdk/wit"),
    world: "repair-rule",
    jsSource: readFileSync("rule.js", "utf8"),
    jsPath: resolve("rule.js"),
    moduleRoot: resolve("."),
    // No clock, no files, nothing: what would ask for them is a trap.
    stubWasi: true,
    sync: true,
    optSize: false,
});
writeFileSync(output, component);
