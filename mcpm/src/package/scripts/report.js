// report.js NAME: says which version of a package is installed, and which commands it has.
const fs = require("node:fs");
const path = require("node:path");

const modules = "/app/node_modules";
const found = JSON.parse(fs.readFileSync(path.join(modules, process.argv[2], "package.json"), "utf8"));
const bin = typeof found.bin === "string" ? { [found.name.split("/").pop()]: found.bin } : found.bin || {};
const commands = Object.keys(bin)
  .sort()
  .map((name) => ({ name, path: path.join(modules, ".bin", name) }))
  .filter((command) => fs.existsSync(command.path))
  .map((command) => ({ ...command, file: fs.realpathSync(command.path) }));
console.log(`${process.env.MCPM_REPORT} ${JSON.stringify({ version: found.version, commands })}`);
