// Builds the Go programs that test the transport: all of them, once for each state of `go/go.mod` and `go/go.sum`,
// which pin every version and hash. Finds or downloads a Go that is new enough.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cached, debian, onPath } from "./machine.ts";

const MODULE = join(import.meta.dirname, "go");
const INTEROP = "google.golang.org/grpc/interop/client";
/** Minor version of Go from which on it downloads the toolchain that a module asks for. */
const BRINGS_TOOLCHAINS = 21;
const PLACES = ["/usr/local/go/bin/go", "/usr/lib/go/bin/go"];

/** Source of the gRPC interoperability client, copied beside it: only the source names all of its cases. */
export const INTEROP_SOURCE = "interop-client.go";

/** The folder of all programs, which are built first if need be. */
export function goTools(): string {
  const pins = ["go.mod", "go.sum"].map((file) => readFileSync(join(MODULE, file)));
  const state = createHash("sha256").update(Buffer.concat(pins)).digest("hex").slice(0, 16);
  return cached(`go-${state}`, (folder) => {
    const go = goOfModule();
    invoke(go, ["build", "-ldflags=-s -w", "-o", `${folder}/`, "tool"]);
    const source = invoke(go, ["list", "-f", "{{.Dir}}", INTEROP]).trim();
    const copy = join(folder, INTEROP_SOURCE);
    copyFileSync(join(source, "client.go"), copy);
    chmodSync(copy, 0o644);
  });
}

/** A Go command that can build the module. */
function goOfModule(): string {
  const go = onPath("go")
    ? "go"
    : (PLACES.find((place) => existsSync(place)) ?? debian("go", "golang-go"));
  const [, minor = ""] = /go1\.(\d+)/.exec(invoke(go, ["version"], "/")) ?? [];
  return Number(minor) >= BRINGS_TOOLCHAINS ? go : toolchainBy(go);
}

/** Downloads a newer Go with an older one, as a module that the checksum database verifies. */
function toolchainBy(old: string): string {
  const [, wanted] = /^go (\S+)$/m.exec(readFileSync(join(MODULE, "go.mod"), "utf8")) ?? [];
  const machine = `${process.platform}-${process.arch === "x64" ? "amd64" : process.arch}`;
  const name = `golang.org/toolchain@v0.0.1-go${wanted}.${machine}`;
  const { Dir: folder }: { readonly Dir: string } = JSON.parse(
    invoke(old, ["mod", "download", "-json", name], "/"),
  );
  // Modules carry no file modes.
  for (const file of globSync(["bin/*", "pkg/tool/*/*"], { cwd: folder })) {
    chmodSync(join(folder, file), 0o755);
  }
  return join(folder, "bin/go");
}

function invoke(go: string, args: readonly string[], cwd = MODULE): string {
  const env = {
    ...process.env,
    CGO_ENABLED: "0",
    GOFLAGS: cwd === MODULE ? "-mod=readonly -trimpath -buildvcs=false" : "",
    GOTOOLCHAIN: "auto",
    GOWORK: "off",
  };
  try {
    return execFileSync(go, args, {
      cwd,
      env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  } catch (cause) {
    const output = cause instanceof Error && "stderr" in cause ? `: ${String(cause.stderr)}` : "";
    const message = `${go} ${args.join(" ")} failed${output}\nThe tools need Go 1.${BRINGS_TOOLCHAINS} or newer, or a module proxy that brings it`;
    throw new Error(message, { cause });
  }
}
