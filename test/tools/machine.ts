// What a machine is made to have: commands of Debian, folders of the cache, and files that come whole or not at all.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const CACHE = join(import.meta.dirname, "../../.cache/tools");

/** A command, from this Debian package where the machine has none. */
export function debian(command: string, name: string): string {
  if (!onPath(command)) {
    run("apt-get", ["update", "-qq"]);
    run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", name]);
  }
  return command;
}

export function onPath(command: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, command)));
}

/**
 * A folder of the cache, made when it is not there yet. It is made under another name and moved, so that one
 * that is there is whole, whoever else makes it at the same time and wherever the making broke off.
 */
export function cached(name: string, make: (folder: string) => void): string {
  const folder = join(CACHE, name);
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    make(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return folder;
}

/** Wheels of a requirements file, each pinned by its hash, in a folder of the cache. */
export function wheels(name: string, requirements: string): string {
  const file = join(import.meta.dirname, requirements);
  return cached(name, (folder) =>
    run("python3", [
      ...["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"],
      ...["--root-user-action=ignore", "--only-binary", ":all:", "--require-hashes"],
      ...["--requirement", file, "--target", folder],
    ]),
  );
}

export function run(command: string, args: readonly string[]): void {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "inherit"] });
}
