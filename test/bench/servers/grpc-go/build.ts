// Builds the grpc-go server of the bench into the folder of installed tools. Its go.mod pins what it uses.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { go } from "../../../../deploy/tools/install.ts";

const HERE = import.meta.dirname;
const TOOLS = join(HERE, "../../../../.cache/tools");
const SOURCES = ["main.go", "go.mod", "go.sum"];

/** Path of the binary, which is built first when its sources have changed. */
export function grpcGo(): string {
  const hash = createHash("sha256");
  for (const source of SOURCES) hash.update(readFileSync(join(HERE, source)));
  const binary = join(TOOLS, `grpc-go-noop-${hash.digest("hex").slice(0, 12)}`);
  if (!existsSync(binary)) {
    mkdirSync(TOOLS, { recursive: true });
    execFileSync(go(), ["build", "-trimpath", "-mod=readonly", "-o", binary, "."], {
      cwd: HERE,
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
  return binary;
}

if (import.meta.main) process.stdout.write(`grpc-go no-op: ${grpcGo()}\n`);
