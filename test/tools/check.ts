// The checks of `make check`, side by side: types with the lint rules that need them, in one program; format and further
// lint rules; and the freshness of generated code. Prints the output of each; exits with 1 if one of them finds a fault.

import { spawn } from "node:child_process";
import { join } from "node:path";

const BIN = join("node_modules", ".bin");

const CHECKS: readonly (readonly [command: string, ...args: string[]])[] = [
  [join(BIN, "oxlint"), "--type-aware", "--type-check", "--config=test/lint/oxlint.json"],
  [join(BIN, "biome"), "check", "--error-on-warnings", "."],
  [process.execPath, "proto/generate.ts", "--check"],
];

async function passes([command, ...args]: readonly [string, ...string[]]): Promise<boolean> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const output: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => output.push(chunk));
  const code = await new Promise((resolve, reject) => {
    child.on("close", resolve).on("error", reject);
  });
  process.stdout.write(Buffer.concat(output));
  return code === 0;
}

const passed = await Promise.all(CHECKS.map(passes));
if (passed.includes(false)) process.exitCode = 1;
