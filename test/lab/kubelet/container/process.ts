// The process of a container: in the network of its pod, with a root of its own that has the files of its image and its
// volumes, as its user, with nothing in its environment but what the pod says.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, lstatSync, openSync, readlinkSync, statSync } from "node:fs";
import { posix } from "node:path";
import type { Environment } from "./environment.ts";

export interface Mount {
  /** Path on this machine. Empty for an empty folder. */
  readonly from: string;
  readonly to: string;
  readonly readOnly: boolean;
}

export interface ProcessSpec {
  readonly command: readonly string[];
  readonly env: Environment;
  readonly workingDir: string;
  readonly user: number;
  readonly group: number;
  /** All groups, `group` among them. */
  readonly groups: readonly number[];
  readonly mounts: readonly Mount[];
  readonly readOnlyRoot: boolean;
  /** Path of the network namespace. */
  readonly network: string;
  /** File that takes standard output and standard error. */
  readonly log: string;
}

export interface Ended {
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | undefined;
}

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Each container has its own mounts, so the place can be the same for all. */
const NEW_ROOT = "/run/root";
/** Programs and libraries of this machine, which stand for the base of every image. */
const BASE = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ssl"];
const SIGNAL_BASE = 128;

export class ContainerProcess {
  readonly #spec: ProcessSpec;
  readonly #child: ChildProcess;
  readonly ended: Promise<Ended>;

  constructor(spec: ProcessSpec) {
    this.#spec = spec;
    const log = openSync(spec.log, "a");
    const { network, command } = spec;
    const inside = ["sh", "-c", rootScript(spec), "sh", ...settingsOf(spec), ...command];
    // Every program of this line replaces the one before: signals go to the container's program.
    const args = [`--net=${network}`, "--", "unshare", "--mount", "--", ...inside];
    this.#child = spawn("nsenter", args, { detached: true, stdio: ["ignore", log, log] });
    closeSync(log);
    this.ended = new Promise((resolve) => {
      this.#child.once("error", () => resolve({ exitCode: SIGNAL_BASE, signal: undefined }));
      this.#child.once("exit", (code, signal) => {
        // Processes that it started and did not end itself end with it.
        this.#killGroup("SIGKILL");
        resolve({ exitCode: code ?? SIGNAL_BASE, signal: signal ?? undefined });
      });
    });
  }

  /** Sends a signal to the container's program; SIGKILL also to all that it started. */
  kill(signal: NodeJS.Signals): void {
    if (signal === "SIGKILL") this.#killGroup(signal);
    else this.#child.kill(signal);
  }

  /** Runs another command in the container. */
  run(command: readonly string[], timeoutMs?: number): Promise<Ran> {
    const { user, group } = this.#spec;
    const inside = ["env", ...settingsOf(this.#spec), ...command];
    const child = spawn(
      "nsenter",
      [
        `--target=${this.#child.pid}`,
        "--net",
        "--mount",
        "--root",
        `--setuid=${user}`,
        `--setgid=${group}`,
        "--",
        ...inside,
      ],
      {
        stdio: ["ignore", "pipe", "pipe"],
        ...(timeoutMs === undefined ? {} : { timeout: timeoutMs, killSignal: "SIGKILL" }),
      },
    );
    let out = "";
    let err = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      err += text;
    });
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve({ code: code ?? SIGNAL_BASE, out, err }));
    });
  }

  #killGroup(signal: NodeJS.Signals): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, signal);
    } catch {
      // All of it has ended.
    }
  }
}

/** Arguments of `env` before the command. */
function settingsOf({ env, workingDir }: ProcessSpec): readonly string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  return ["-i", "-C", workingDir, ...variables];
}

/** Makes the root in the mount namespace of the container, and runs `env` with the script's arguments in it. */
function rootScript({
  user,
  group,
  groups,
  mounts,
  readOnlyRoot,
  workingDir,
}: ProcessSpec): string {
  const lines = ["set -e", `mkdir -p ${NEW_ROOT}`, `mount -t tmpfs -o mode=755 tmpfs ${NEW_ROOT}`];
  const at = (path: string) => quoted(posix.join(NEW_ROOT, path));
  const bind = ({ from, to, readOnly }: Mount) => {
    const isFolder = statSync(from).isDirectory();
    lines.push(
      isFolder ? `mkdir -p ${at(to)}` : `mkdir -p ${at(posix.dirname(to))}; touch ${at(to)}`,
      `mount --bind ${quoted(from)} ${at(to)}`,
    );
    if (readOnly) lines.push(`mount -o remount,bind,ro ${at(to)}`);
  };
  for (const path of BASE) {
    if (!exists(path)) continue;
    if (lstatSync(path).isSymbolicLink())
      lines.push(`ln -s ${quoted(readlinkSync(path))} ${at(path)}`);
    else bind({ from: path, to: path, readOnly: true });
  }
  // Programs of the image, of which the machine may have others.
  lines.push(`mount -t tmpfs -o mode=755 tmpfs ${at("/usr/local/bin")}`);
  for (const path of ["/proc", "/dev"])
    lines.push(`mkdir ${at(path)}`, `mount --rbind ${path} ${at(path)}`);
  lines.push(
    `mkdir -m 1777 ${at("/tmp")}`,
    `mkdir -p ${at("/run")} ${at("/var")} ${at(workingDir)}`,
  );
  lines.push(`ln -s /run ${at("/var/run")}`);
  const depth = ({ to }: Mount) => to.split("/").length;
  for (const mount of [...mounts].sort((one, other) => depth(one) - depth(other))) {
    // The link would be followed on this machine, not in the container.
    const to = mount.to.replace(/^\/var\/run\//, "/run/");
    if (mount.from === "") lines.push(`mkdir -p ${at(to)}; chown ${user}:${group} ${at(to)}`);
    else bind({ ...mount, to });
  }
  if (readOnlyRoot) lines.push(`mount -o remount,ro ${NEW_ROOT}`);
  const as = `--userspec=${user}:${group} --groups=${groups.join()}`;
  lines.push(`exec setpriv --no-new-privs -- chroot ${as} ${NEW_ROOT} env "$@"`);
  return lines.join("\n");
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
