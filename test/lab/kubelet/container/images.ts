// Stand-ins for the images of containers: commands of this machine, with the files that an image would have. Nothing is
// pulled. The image of Sluice is what deploy/Dockerfile says, with the files of this tree.

import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { execPath } from "node:process";
import { envoy, etcd } from "../../../../deploy/tools/install.ts";

const ROOT = join(import.meta.dirname, "../../../..");

export interface Image {
  readonly entrypoint: readonly string[];
  /** Arguments where the container has neither a command nor arguments. */
  readonly command?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly user?: number;
  readonly workingDir?: string;
  /** Files and folders of this machine, by their paths in the image. */
  readonly files: Readonly<Record<string, string>>;
}

/** Images by the last part of their repository: `sluice` for `registry.example.com/team/sluice:1`. */
export type Images = Readonly<Record<string, () => Image>>;

/** Everything that the charts and the injector name. */
export const IMAGES: Images = {
  sluice: sluiceImage,
  envoy: () => ({
    entrypoint: ["/usr/local/bin/envoy"],
    command: ["-c", "/etc/envoy/envoy.yaml"],
    user: 101,
    files: { "/usr/local/bin/envoy": envoy() },
  }),
  etcd: () => ({ entrypoint: [], files: { "/usr/local/bin/etcd": etcd()["3.5"] } }),
  prometheus: () => ({
    entrypoint: ["/usr/bin/prometheus"],
    user: 65_534,
    workingDir: "/prometheus",
    files: { "/prometheus": "" },
  }),
};

/** A program of this tree that Node runs, as the image of an application. */
export function nodeImage(file: string): Image {
  return {
    entrypoint: ["node", "/application/main.ts"],
    user: 1000,
    files: {
      "/usr/local/bin/node": realpathSync(execPath),
      "/application/main.ts": file,
    },
  };
}

export function imageOf(images: Images, name: string): Image {
  const [, repository = ""] = /([^/:@]+)(?::[^/]*)?(?:@.*)?$/.exec(name) ?? [];
  const image = images[repository];
  if (image === undefined) throw new Error(`this kubelet has no image ${name}`);
  return image();
}

/** The instructions of the last stage of the Dockerfile. */
function sluiceImage(): Image {
  const text = readFileSync(join(ROOT, "deploy/Dockerfile"), "utf8").replaceAll(/^#.*\n/gm, "");
  const stage = text.slice(text.lastIndexOf("\nFROM "));
  const one = (instruction: string) => {
    const found = new RegExp(`^${instruction} (.*)$`, "m").exec(stage)?.[1];
    if (found === undefined) throw new Error(`deploy/Dockerfile has no ${instruction}`);
    return found;
  };
  const workingDir = one("WORKDIR");
  const env = [...stage.matchAll(/^ENV (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]);
  return {
    entrypoint: JSON.parse(one("ENTRYPOINT")),
    command: JSON.parse(one("CMD")),
    env: Object.fromEntries(env),
    user: Number(one("USER").split(":")[0]),
    workingDir,
    files: {
      "/usr/local/bin/node": realpathSync(execPath),
      ...Object.fromEntries(
        ["src", "proto/gen", "node_modules", "package.json"].map((name) => [
          join(workingDir, name),
          realpathSync(join(ROOT, name)),
        ]),
      ),
    },
  };
}
