// Builds the Go servers of the bench into the folder of installed tools. The go.mod of each pins what it uses.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { go } from "../../../../deploy/tools/install.ts";

const HERE = join(import.meta.dirname, "..");
const TOOLS = join(HERE, "../../../.cache/tools");
const SOURCES = ["main.go", "go.mod", "go.sum"];

/** With the names of their binaries. */
const SERVERS = { "grpc-go": "grpc-go-noop", ratelimit: "ratelimit" } as const;

export type GoServer = keyof typeof SERVERS;

/** Path of the binary, which is built first when its sources have changed. */
export function goServer(name: GoServer): string {
  const folder = join(HERE, name);
  const hash = createHash("sha256");
  for (const source of SOURCES) hash.update(readFileSync(join(folder, source)));
  const binary = join(TOOLS, `${SERVERS[name]}-${hash.digest("hex").slice(0, 12)}`);
  if (!existsSync(binary)) {
    mkdirSync(TOOLS, { recursive: true });
    execFileSync(go(), ["build", "-trimpath", "-mod=readonly", "-o", binary, "."], {
      cwd: folder,
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
  return binary;
}

if (import.meta.main) {
  for (const name of Object.keys(SERVERS) as GoServer[]) {
    process.stdout.write(`${name}: ${goServer(name)}\n`);
  }
}
