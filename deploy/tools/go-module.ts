// Runs Go in the modules below `go/`, whose files pin every version and hash. Finds or downloads a Go that is new enough.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cached, debian, onPath } from "./machine.ts";

const MODULES = join(import.meta.dirname, "go");
/** Minor version of Go from which on it downloads the toolchain that a module asks for. */
const BRINGS_TOOLCHAINS = 21;
const PLACES = ["/usr/local/go/bin/go", "/usr/lib/go/bin/go"];

/** Runs `go` with these arguments in the folder of a module, and returns what it prints. */
export type Go = (...args: readonly string[]) => string;

/**
 * The folder of what is made from a module, once for each state of its files. `module` is the folder of the module relative
 * to `go/`, and `fill` puts the result into the folder that it is given.
 */
export function fromModule(
  name: string,
  { module, env = {} }: { readonly module: string; readonly env?: NodeJS.ProcessEnv },
  fill: (go: Go, folder: string) => void,
): string {
  const folder = join(MODULES, module);
  const pins = globSync("*.{mod,sum,go}", { cwd: folder }).sort();
  const state = createHash("sha256")
    .update(Buffer.concat(pins.map((file) => readFileSync(join(folder, file)))))
    .digest("hex");
  return cached(`${name}-${state.slice(0, 16)}`, (target) => {
    const go = goOf(folder);
    fill((...args) => invoke(go, args, { cwd: folder, env }), target);
  });
}

/** A Go command that can build the module. */
function goOf(module: string): string {
  const go = onPath("go")
    ? "go"
    : (PLACES.find((place) => existsSync(place)) ?? debian("go", "golang-go"));
  const [, minor = ""] = /go1\.(\d+)/.exec(invoke(go, ["version"])) ?? [];
  return Number(minor) >= BRINGS_TOOLCHAINS ? go : toolchainBy(go, module);
}

/** Downloads a newer Go with an older one, as a module that the checksum database verifies. */
function toolchainBy(old: string, module: string): string {
  const [, wanted] = /^go (\S+)$/m.exec(readFileSync(join(module, "go.mod"), "utf8")) ?? [];
  const machine = `${process.platform}-${process.arch === "x64" ? "amd64" : process.arch}`;
  const name = `golang.org/toolchain@v0.0.1-go${wanted}.${machine}`;
  const { Dir: folder }: { readonly Dir: string } = JSON.parse(
    invoke(old, ["mod", "download", "-json", name]),
  );
  // Modules carry no file modes.
  for (const file of globSync(["bin/*", "pkg/tool/*/*"], { cwd: folder })) {
    chmodSync(join(folder, file), 0o755);
  }
  return join(folder, "bin/go");
}

function invoke(
  go: string,
  args: readonly string[],
  { cwd, env = {} }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): string {
  try {
    return execFileSync(go, args, {
      cwd: cwd ?? "/",
      env: {
        ...process.env,
        GOFLAGS: cwd === undefined ? "" : "-mod=readonly -buildvcs=false",
        GOTOOLCHAIN: "auto",
        GOWORK: "off",
        ...env,
      },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  } catch (cause) {
    const output = cause instanceof Error && "stderr" in cause ? `: ${String(cause.stderr)}` : "";
    const message = `${go} ${args.join(" ")} failed${output}\nThe tools need Go 1.${BRINGS_TOOLCHAINS} or newer, or a module proxy that brings it`;
    throw new Error(message, { cause });
  }
}
