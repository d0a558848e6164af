// Builds the Go programs of the tests: those that test the transport, a Kubernetes control plane, kwok, which plays its
// nodes, kubectl and Helm.

import { chmodSync, copyFileSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromModule } from "./go-module.ts";

const INTEROP = "google.golang.org/grpc/interop/client";

/** Source of the gRPC interoperability client, copied beside it: only the source names all of its cases. */
export const INTEROP_SOURCE = "interop-client.go";

/** The folder of all programs that test the transport. */
export function goTools(): string {
  const env = { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly -trimpath -buildvcs=false" };
  return fromModule("go", { module: ".", env }, (go, folder) => {
    go("build", "-ldflags=-s -w", "-o", `${folder}/`, "tool");
    const source = go("list", "-f", "{{.Dir}}", INTEROP).trim();
    const copy = join(folder, INTEROP_SOURCE);
    copyFileSync(join(source, "client.go"), copy);
    chmodSync(copy, 0o644);
  });
}

/** Path of a client and a server of gRPC on grpc-go. */
export function grpcEcho(): string {
  const folder = fromModule("grpc-echo", { module: "grpc-echo" }, (go, target) => {
    go("build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", `${target}/`, ".");
  });
  return join(folder, "grpc-echo");
}

const VERSION = "k8s.io/component-base/version";
const CONTROL_PLANE = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] as const;

/** The folder of the programs of a Kubernetes control plane, under their usual names. */
export function kube(): string {
  return fromModule("kube", { module: "kube" }, (go, folder) => {
    const version = go("list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").trim();
    go("build", linkedAs(version), "-o", join(folder, "kube"), ".");
    for (const name of CONTROL_PLANE) symlinkSync("kube", join(folder, name));
  });
}

/** Path of kubectl. */
export function kubectl(): string {
  const built = fromModule("kubectl", { module: "kubectl" }, (go, folder) => {
    const version = go("list", "-m", "-f", "{{.Version}}", "k8s.io/kubectl").trim();
    go("build", linkedAs(version.replace(/^v0/, "v1")), "-o", join(folder, "kubectl"), ".");
  });
  return join(built, "kubectl");
}

/** Helm, kubectl and the injector ask the server which version it is, which only the linker can tell it. */
function linkedAs(version: string): string {
  const [, major = "", minor = ""] = /^v(\d+)\.(\d+)\./.exec(version) ?? [];
  const facts = { gitVersion: version, gitMajor: major, gitMinor: minor };
  const linked = Object.entries(facts).map(([name, fact]) => `-X ${VERSION}.${name}=${fact}`);
  return `-ldflags=-s -w ${linked.join(" ")}`;
}

/** The behaviour of simulated nodes and pods, from kwok's own module: a node becomes ready, a pod runs at once. */
const STAGES = ["node/fast", "node/heartbeat", "pod/fast"];
/** Name of the file of stages beside kwok. */
const STAGES_FILE = "stages.yaml";

/** kwok, which plays the nodes of a cluster, and the file of stages that its flag `--config` takes. */
export function kwok(): { readonly command: string; readonly stages: string } {
  const built = fromModule("kwok", { module: "kwok" }, (go, folder) => {
    go("build", "-ldflags=-s -w", "-o", `${folder}/`, "tool");
    const source = join(
      go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").trim(),
      "kustomize/stage",
    );
    const stages = STAGES.flatMap((stage) => resourcesIn(join(source, stage)));
    writeFileSync(join(folder, STAGES_FILE), stages.join("\n---\n"));
  });
  return { command: join(built, "kwok"), stages: join(built, STAGES_FILE) };
}

/** The texts of the files that a kustomization lists. */
function resourcesIn(folder: string): readonly string[] {
  const list = readFileSync(join(folder, "kustomization.yaml"), "utf8");
  const files = [...list.matchAll(/^- (\S+\.yaml)$/gm)].map(([, file = ""]) => file);
  return files.map((file) => readFileSync(join(folder, file), "utf8"));
}

/** Path of Helm 3. */
export function helm(): string {
  const built = fromModule("helm", { module: "helm" }, (go, folder) => {
    go("build", "-ldflags=-s -w", "-o", `${folder}/`, "tool");
  });
  return join(built, "helm");
}
