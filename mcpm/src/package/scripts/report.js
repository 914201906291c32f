// report.js NAME: says which version of a package is installed, and which commands it has. With --project, the package is
// the one in /app/src; with --script FILE, the command is the one that starts the script.
const fs = require("node:fs");
const path = require("node:path");

const modules = "/app/node_modules";
const server = "/app/bin/server";
const launcher = fs.existsSync(server) ? [{ name: "server", path: server, file: server }] : [];

function installed(folder) {
  const found = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const name = found.name || path.basename(folder);
  const bin = typeof found.bin === "string" ? { [name.split("/").pop()]: found.bin } : found.bin || {};
  const commands = Object.keys(bin)
    .sort()
    .map((name) => ({ name, path: path.join(modules, ".bin", name) }))
    .filter((command) => fs.existsSync(command.path))
    .map((command) => ({ ...command, file: fs.realpathSync(command.path) }));
  return { name, version: found.version || "(local)", commands: commands.length ? commands : launcher };
}

const found = {
  "--script": () => ({ version: "(local)", commands: launcher }),
  "--project": () => installed("/app/src"),
}[process.argv[2]];
const report = found ? found() : installed(path.join(modules, process.argv[2]));
console.log(`${process.env.MCPM_REPORT} ${JSON.stringify(report)}`);
