// The commands that pages show, and a shell that runs them with real Helm and kubectl as a reader would: in a folder that
// looks like a clone of the repository.

import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { helm, kubectl } from "../../../../deploy/tools/go-tools.ts";
import type { Ending } from "../../ending.ts";
import { folderOf } from "../../folder.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const run = promisify(execFile);

/** The text of a page, by its path in the repository. */
export function page(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The command lines of a page's code blocks, with continued lines joined. */
export function commandsOf(path: string): readonly string[] {
  const blocks = [...page(path).matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter(([, language = ""]) => language === "" || language === "sh")
    .map(([, , text = ""]) => text);
  return blocks
    .flatMap((text) => text.replaceAll(/\\\n\s*/g, "").split("\n"))
    .filter((line) => line !== "");
}

export interface ShellOptions {
  /** The cluster; without it, none is reachable. */
  readonly kubeconfig?: string;
  /** Files of the reader, by name. */
  readonly files?: Readonly<Record<string, string>>;
}

/** Runs one command line and resolves with its standard output. Rejects with what it wrote to standard error. */
export type Shell = (line: string) => Promise<string>;

/** A shell of a reader. Its folder is removed when the test ends. */
export function openShell(
  test: Ending,
  { kubeconfig = "/dev/null", files = {} }: ShellOptions = {},
): Shell {
  const folder = folderOf(test, files);
  const bin = join(folder, ".bin");
  mkdirSync(bin);
  symlinkSync(helm(), join(bin, "helm"));
  symlinkSync(kubectl(), join(bin, "kubectl"));
  symlinkSync(join(ROOT, "deploy"), join(folder, "deploy"));
  const env = {
    PATH: `${bin}:${process.env["PATH"]}`,
    HOME: folder,
    KUBECONFIG: kubeconfig,
  };
  return async (line) => {
    try {
      const { stdout } = await run("sh", ["-c", line], { cwd: folder, env, maxBuffer: 1 << 26 });
      return stdout;
    } catch (thrown) {
      if (!(thrown instanceof Error && "stderr" in thrown)) throw thrown;
      throw new Error(`${line}\n${thrown.stderr}`, { cause: thrown });
    }
  };
}
