// The image: what deploy/Dockerfile copies is assembled here, and runs as the image would, without building one: in a
// root of its own that is read-only and holds nothing but Node, its libraries and these files, as a user without rights.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  globSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { execPath } from "node:process";
import { type TestContext, test } from "node:test";
import { cluster } from "../injector/cluster.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { type Child, child } from "../kit/servers/child.ts";
import { until } from "../kit/until.ts";

const ROOT = join(import.meta.dirname, "../..");
const MAX_BYTES = 200_000_000;
const USER = 65_532;

/** The instructions of deploy/Dockerfile, one a line, without comments. */
const INSTRUCTIONS = readFileSync(join(ROOT, "deploy/Dockerfile"), "utf8")
  .replaceAll(/^#.*\n/gm, "")
  .replaceAll("\\\n", " ")
  .split("\n")
  .filter((line) => line !== "");

function instructions(name: string): readonly string[] {
  return INSTRUCTIONS.filter((line) => line.startsWith(`${name} `)).map((line) =>
    line.slice(name.length + 1),
  );
}

function npm(...args: readonly string[]): string {
  return execFileSync("npm", args, {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** The flags of `npm ci` by which packages are left out. */
function omitted(): readonly string[] {
  const install = instructions("RUN").find((line) => line.startsWith("npm ci")) ?? "";
  const flags = install.match(/--omit=\w+/g) ?? [];
  assert.deepEqual(flags, ["--omit=dev", "--omit=optional"]);
  return flags;
}

/** Folders of the packages that `npm ci` would install, relative to the repository. */
function packages(): readonly string[] {
  const listed = npm("ls", "--all", "--parseable", ...omitted())
    .trim()
    .split("\n");
  const folders = listed.map((path) => relative(ROOT, path)).filter((path) => path !== "");
  assert.ok(folders.length > 10);
  return folders;
}

/** Fills a folder with what the first stage of the Dockerfile has in /sluice. */
function assemble(folder: string): void {
  const copied = instructions("COPY").filter((line) => /^[^-].* \.\/\S*$/.test(line));
  assert.ok(copied.some((line) => line.startsWith("src ")));
  for (const line of copied) {
    const words = line.split(/\s+/);
    const to = words.at(-1) ?? "";
    for (const from of words.slice(0, -1))
      cpSync(join(ROOT, from), join(folder, to === "./" ? from : to), { recursive: true });
  }
  for (const path of packages()) {
    // Packages inside of packages are listed themselves.
    const filter = (inner: string) => !relative(join(ROOT, path), inner).includes("node_modules");
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter });
  }
}

function bytesIn(folder: string): number {
  return globSync("**/*", { cwd: folder })
    .map((path) => lstatSync(join(folder, path)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0);
}

test("the base is pinned by a digest, and the process is neither root nor in a shell", () => {
  const bases = instructions("FROM");
  assert.equal(bases.length, 2);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a Dockerfile names its arguments
  for (const base of bases) assert.ok(base.startsWith("${NODE_IMAGE}@${NODE_DIGEST}"), base);
  assert.ok(instructions("ARG").includes("NODE_DIGEST"), "without a default");
  const last = INSTRUCTIONS.slice(INSTRUCTIONS.lastIndexOf(`FROM ${bases[1]}`));
  assert.deepEqual(
    last.filter((line) => line.startsWith("USER ")),
    [`USER ${USER}:${USER}`],
  );
  assert.deepEqual(
    last.filter((line) => line.startsWith("RUN ")),
    [],
  );
  assert.match(instructions("ENTRYPOINT").join(), /^\["node", .*"src\/cli\/sluice\.js"\]$/);
});

test("each process fills the cache of compiled modules, with all that it loads for Kubernetes", () => {
  const program = readFileSync(join(ROOT, "src/cli/sluice.ts"), "utf8");
  const processes = [...program.matchAll(/processes\/(\w+)\.ts/g)].map(([, name = ""]) => name);
  assert.deepEqual(processes.toSorted(), ["agent", "controller", "injector", "standalone"]);
  const run = instructions("RUN").find((line) => line.includes("src/cli/sluice.js $process")) ?? "";
  const [, list = ""] = /for process in (.*?); do/.exec(run) ?? [];
  for (const name of processes) assert.match(list, new RegExp(`\\b${name}\\b`), name);
  for (const name of [
    "SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_ENABLED",
    "SVC_CONTROLLER_SERVICE_DISCOVERY_KUBERNETES_ENABLED",
    "SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED",
    "SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED",
  ])
    assert.ok(run.includes(`${name}=true`), name);
});

test("the packages of the image run on each architecture, and are listed in its bill of materials", (t) => {
  const all = packages();
  const native = all.flatMap((path) => globSync("**/*.{node,so}", { cwd: join(ROOT, path) }));
  assert.deepEqual(native, []);
  const folder = folderOf(t);
  assemble(folder);
  const make = instructions("RUN").find((line) => line.includes("npm sbom")) ?? "";
  const [, file = ""] = /> (\S+)$/.exec(make) ?? [];
  execFileSync("sh", ["-c", make], { cwd: folder, stdio: "pipe" });
  const bill = JSON.parse(readFileSync(join(folder, file), "utf8"));
  const components: readonly { readonly "bom-ref": string }[] = bill.components;
  const names = components.map((component) => component["bom-ref"]);
  for (const path of all) {
    const { name, version } = JSON.parse(readFileSync(join(ROOT, path, "package.json"), "utf8"));
    // An alias is listed under the name by which it is installed.
    const isListed = [name, path.replace(/^.*node_modules\//, "")].some((each) =>
      names.includes(`${each}@${version}`),
    );
    assert.ok(isListed, `${name}@${version}`);
  }
});

/** Puts Node and the libraries that it is linked with into a root, and nothing else. */
function addNode(root: string): void {
  const put = (from: string, to: string) => {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    copyFileSync(realpathSync(from), join(root, to));
  };
  put(execPath, "/usr/local/bin/node");
  chmodSync(join(root, "/usr/local/bin/node"), 0o755);
  const linked = execFileSync("ldd", [execPath], { encoding: "utf8" });
  const libraries = [...linked.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path = ""]) => path);
  assert.ok(libraries.length > 3);
  for (const path of libraries) put(path, path);
}

interface Image {
  /** The folder that becomes /sluice. */
  readonly folder: string;
  /** Runs a command line in the image, with a read-only root, as the image's user. */
  run(test: TestContext, args: readonly string[], env?: Readonly<Record<string, string>>): Child;
}

/** The image's files in a root of their own, with a cache of compiled modules, which the Dockerfile fills by a longer run. */
function imageOf(t: TestContext): Image {
  const root = folderOf(t);
  chmodSync(root, 0o755);
  for (const folder of ["sluice", "proc", "dev", "tmp", "policies"]) mkdirSync(join(root, folder));
  assemble(join(root, "sluice"));
  addNode(root);
  cpSync(join(ROOT, "deploy/policies"), join(root, "policies"), { recursive: true });
  const env = Object.fromEntries(
    instructions("ENV").map((line) => [
      line.split("=")[0] ?? "",
      line.split("=").slice(1).join("="),
    ]),
  );
  const entry: readonly string[] = JSON.parse(instructions("ENTRYPOINT").join());
  const start = (mode: "ro" | "rw", user: number) => [
    "--mount",
    "--propagation=private",
    "sh",
    "-c",
    [
      'mount --bind "$0" "$0"',
      'mount --rbind /proc "$0/proc"',
      'mount --rbind /dev "$0/dev"',
      `mount -o remount,bind,${mode} "$0"`,
      `exec unshare --root="$0" --wd=/sluice --setgid=${user} --setuid=${user} "$@"`,
    ].join(" && "),
    root,
  ];
  const variables = { PATH: "/usr/local/bin:/usr/bin:/bin", ...env };
  execFileSync("unshare", [...start("rw", 0), ...entry, "version"], {
    env: variables,
    stdio: "pipe",
  });
  assert.ok(globSync(".cache/**/*", { cwd: join(root, "sluice") }).length > 0);
  return {
    folder: join(root, "sluice"),
    run: (test, args, more = {}) =>
      child(
        test,
        "unshare",
        [...start("ro", USER), ...args.flatMap((arg) => (arg === "sluice" ? entry : [arg]))],
        {
          env: { ...variables, ...more },
        },
      ),
  };
}

const isRoot = process.getuid?.() === 0;

test("the image's files run without rights on a read-only root", {
  skip: isRoot ? false : "needs root",
}, async (t) => {
  const image = imageOf(t);
  const quiet = {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    ...Object.fromEntries(
      ["DEBUG", "HEALTH_CHECK", "PPROF", "ZPAGES"].flatMap((port) =>
        ["AGENT", "CONTROLLER", "INJECTOR"].map((who) => [
          `SVC_${who}_OTEL_PORTS_${port}_PORT`,
          "0",
        ]),
      ),
    ),
  };
  await t.test("nothing can be written, and there is no shell", async (t) => {
    const script = `
      const fs = require("node:fs");
      const refused = (path) => { try { fs.writeFileSync(path, ""); return ""; } catch ({ code }) { return code; } };
      console.log(JSON.stringify({
        uid: process.getuid(), gid: process.getgid(), groups: process.getgroups(),
        files: ["/x", "/tmp/x", "/sluice/x"].map(refused), shell: fs.existsSync("/bin/sh") || fs.existsSync("/usr/bin/sh"),
      }));`;
    const seen = image.run(t, ["node", "-e", script]);
    assert.equal(await seen.ended, 0, seen.err());
    const found = JSON.parse(seen.out());
    assert.equal(found.uid, USER);
    assert.equal(found.gid, USER);
    assert.deepEqual(found.files, ["EROFS", "EROFS", "EROFS"]);
    assert.equal(found.shell, false);
  });

  const asked = async (own: Child) => {
    const listening = () => /listening on ([^"\\s]+)/.exec(own.out() + own.err())?.[1];
    await own.until("it listens", () => listening() !== undefined);
    const url = `http://${listening()}`;
    await until("it is ready", async () => (await fetch(`${url}/healthz`)).status === 200);
    return async (user: string) => {
      const reply = await fetch(`${url}/v1/flowcontrol/checkhttp`, {
        method: "POST",
        body: JSON.stringify({
          control_point: "ingress",
          request: { method: "GET", path: "/", headers: { "x-user": user } },
        }),
      });
      const { check_response }: { readonly check_response: { readonly decision_type: string } } =
        JSON.parse(await reply.text());
      return check_response.decision_type;
    };
  };
  const cleanly = async (own: Child) => {
    own.kill("SIGTERM");
    assert.equal(await own.ended, 0, own.err());
    assert.doesNotMatch(own.out() + own.err(), /"level":"error"|EACCES|EROFS/);
  };

  await t.test("sluice standalone answers checks by its policies", async (t) => {
    const own = image.run(t, ["sluice", "standalone", "--policies", "/policies"], quiet);
    const decide = await asked(own);
    const decisions: string[] = [];
    for (let count = 0; count < 10; count++) decisions.push(await decide("ann"));
    assert.ok(decisions.includes("DECISION_TYPE_ACCEPTED"));
    assert.ok(decisions.includes("DECISION_TYPE_REJECTED"));
    await cleanly(own);
  });

  await t.test("sluice controller and sluice agent work over an etcd", async (t) => {
    const { endpoints } = await startEtcd(t);
    const both = {
      ...quiet,
      SVC_CONTROLLER_SERVER_LISTENER_ADDR: "127.0.0.1:0",
      SVC_CONTROLLER_ETCD_ENDPOINTS: JSON.stringify(endpoints),
      SVC_AGENT_ETCD_ENDPOINTS: JSON.stringify(endpoints),
      SVC_AGENT_COUNTERS_ENGINE: "local",
    };
    const controller = image.run(t, ["sluice", "controller", "--policies", "/policies"], both);
    await controller.until("it leads", () =>
      /"message":"listening on/.test(controller.err() + controller.out()),
    );
    const agent = image.run(t, ["sluice", "agent"], both);
    const decide = await asked(agent);
    await until("the policy is in force", async () => {
      return (await decide("bea")) === "DECISION_TYPE_REJECTED";
    });
    await cleanly(agent);
    await cleanly(controller);
  });

  await t.test("sluice injector answers reviews with a certificate of its own", async (t) => {
    const held = await cluster(t);
    held.addNamespace("shop");
    // It writes its certificate, which a pod has a volume in memory for.
    cpSync(held.kubeconfig, join(image.folder, "kubeconfig"));
    chmodSync(join(image.folder, "kubeconfig"), 0o644);
    const own = image.run(t, ["sluice", "injector"], {
      ...quiet,
      KUBECONFIG: "/sluice/kubeconfig",
      TMPDIR: "/dev/shm",
      SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
      SVC_AGENT_SERVER_LISTENER_ADDR: ":8080",
      SVC_INJECTOR_SERVER_LISTENER_ADDR: "127.0.0.1:0",
      SVC_INJECTOR_WEBHOOK_ADDR: "127.0.0.1:0",
    });
    await own.until(
      "both of its ports listen",
      () => [...(own.out() + own.err()).matchAll(/"message":"listening on/g)].length === 2,
    );
    await until("its authority is published", () =>
      held.configuration.webhooks.every(
        ({ clientConfig }: { clientConfig: { caBundle?: string } }) => clientConfig.caBundle,
      ),
    );
    await cleanly(own);
  });

  await t.test("it is small enough", (t) => {
    const bytes = bytesIn(image.folder);
    t.diagnostic(`${(bytes / 1e6).toFixed(1)} MB without its base`);
    assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  });
});
