// Puts programs on the machine: Debian packages, and folders of a cache that are either complete or absent.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const CACHE = join(import.meta.dirname, "../../.cache/tools");

/** Name of a command, which is installed from this Debian package if it is missing. */
export function debian(command: string, name: string): string {
  if (!onPath(command)) {
    run("apt-get", ["update", "-qq"]);
    run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", name]);
  }
  return command;
}

/**
 * Folder of the cache with the files of a Debian package, which is not installed: installing a server may start it.
 */
export function debianFiles(name: string): string {
  return cached(`debian-${name}`, (folder) => {
    run("apt-get", ["update", "-qq"]);
    execFileSync("apt-get", ["download", "-qq", name], {
      cwd: folder,
      stdio: ["ignore", "ignore", "pipe"],
    });
    for (const file of readdirSync(folder)) run("dpkg", ["-x", join(folder, file), folder]);
  });
}

export function onPath(command: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, command)));
}

/**
 * A folder of the cache, filled by `fill` if it is missing. It is filled under another name and then moved, so that
 * an existing folder is complete even if another process fills it at the same time or a run was interrupted.
 */
export function cached(name: string, fill: (folder: string) => void): string {
  const folder = join(CACHE, name);
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    fill(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return folder;
}

/** Folder of the cache with the wheels of a requirements file, each pinned by its hash. */
export function wheels(name: string, requirements: string): string {
  const file = join(import.meta.dirname, requirements);
  return cached(name, (folder) =>
    run("python3", [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "--no-deps",
      "--root-user-action=ignore",
      "--only-binary",
      ":all:",
      "--require-hashes",
      "--requirement",
      file,
      "--target",
      folder,
    ]),
  );
}

export function run(command: string, args: readonly string[]): void {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "inherit"] });
}
