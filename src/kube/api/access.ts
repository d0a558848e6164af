// The address of the API server and this process's credentials for it: from the service account of its pod, or from a
// kubeconfig.

import { dirname, isAbsolute, join } from "node:path";
import { parse } from "yaml";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Environment } from "#client/http-settings.ts";
import type { InlineTls } from "#client/tls-files.ts";
import { readTextFile } from "#runtime/life/text-file.ts";
import { type Credentials, fixedToken, tokenFile } from "./credentials.ts";
import { fieldOf, textOf } from "./objects.ts";

export interface Access {
  /** `https://host:port`, and the path of the API if it is not the root. */
  readonly url: string;
  /** The namespace of this process; `default` when unknown. */
  readonly namespace: string;
  readonly credentials: Credentials;
  /** Paths of PEM files, empty for none. They are reloaded when they change. */
  readonly files: Readonly<Record<"ca_file" | "cert_file" | "key_file", string>>;
  /** PEM contents in place of files. */
  readonly material: InlineTls;
  /** True if server certificates are accepted without verification. */
  readonly insecure: boolean;
}

/** Largest kubeconfig, in bytes. */
const MAX_BYTES = 1024 * 1024;

/** Where Kubernetes mounts the credentials of the pod's service account. */
export const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * The kubeconfig that KUBECONFIG names, or else the service account of the pod.
 * @throws Fault FAILED_PRECONDITION if there is neither, INVALID_ARGUMENT for an unusable kubeconfig
 */
export async function findAccess(
  env: Environment,
  clock: Clock,
  account = SERVICE_ACCOUNT,
): Promise<Access> {
  const file = env["KUBECONFIG"];
  if (file) return fromKubeconfig(file, clock);
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = env["KUBERNETES_SERVICE_PORT"];
  if (!host || !port) {
    const wanted =
      "wanted a Kubernetes API server: a pod with a service account, or a kubeconfig in KUBECONFIG, got neither";
    throw new Fault("FAILED_PRECONDITION", wanted);
  }
  const namespace = await readTextFile(join(account, "namespace"), MAX_BYTES).catch(() => "");
  return {
    url: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    namespace: namespace.trim() || env["POD_NAMESPACE"] || "default",
    credentials: tokenFile(join(account, "token"), clock),
    files: { ca_file: join(account, "ca.crt"), cert_file: "", key_file: "" },
    material: {},
    insecure: false,
  };
}

/** Fields of a kubeconfig that change the server or the identity and that this client does not support. */
const REFUSED = {
  cluster: ["tls-server-name", "proxy-url"],
  user: ["exec", "auth-provider", "username", "password", "as"],
} as const;

async function fromKubeconfig(path: string, clock: Clock): Promise<Access> {
  const refuse = (why: string) => new Fault("INVALID_ARGUMENT", `KUBECONFIG: ${path}: ${why}`);
  const text = await readTextFile(path, MAX_BYTES).catch((thrown: unknown) => {
    const { code, message } = Fault.from(thrown);
    throw new Fault(code, `KUBECONFIG: ${message}`);
  });
  const config = yamlOf(text, refuse);
  const named = (list: string, name: string, what: string): unknown => {
    const all = fieldOf(config, list);
    const found = Array.isArray(all) && all.find((each) => textOf(each, "name") === name);
    if (!found) throw refuse(`wanted ${what} ${JSON.stringify(name)} in ${list}, got none`);
    return fieldOf(found, what);
  };
  const context = named("contexts", textOf(config, "current-context"), "context");
  const cluster = named("clusters", textOf(context, "cluster"), "cluster");
  const user = named("users", textOf(context, "user"), "user");
  for (const [what, from] of [["cluster", cluster] as const, ["user", user] as const]) {
    const found = REFUSED[what].find((name) => fieldOf(from, name) !== undefined);
    if (found !== undefined) throw refuse(`${found} of a ${what} is not supported`);
  }
  const url = URL.parse(textOf(cluster, "server"));
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw refuse("wanted an http:// or https:// URL in server");
  }
  // Paths are relative to the kubeconfig.
  const fileOf = (from: unknown, name: string) => {
    const file = textOf(from, name);
    return file === "" || isAbsolute(file) ? file : join(dirname(path), file);
  };
  const data = (from: unknown, name: string) => {
    const text = textOf(from, name);
    return text === "" ? undefined : Buffer.from(text, "base64");
  };
  const token = fileOf(user, "tokenFile");
  return {
    url: url.href.replace(/\/+$/, ""),
    namespace: textOf(context, "namespace") || "default",
    credentials:
      token === "" ? fixedToken(textOf(user, "token") || undefined) : tokenFile(token, clock),
    files: {
      ca_file: fileOf(cluster, "certificate-authority"),
      cert_file: fileOf(user, "client-certificate"),
      key_file: fileOf(user, "client-key"),
    },
    material: present({
      ca: data(cluster, "certificate-authority-data"),
      cert: data(user, "client-certificate-data"),
      key: data(user, "client-key-data"),
    }),
    insecure: fieldOf(cluster, "insecure-skip-tls-verify") === true,
  };
}

function yamlOf(text: string, refuse: (why: string) => Fault): unknown {
  try {
    return parse(text);
  } catch {
    // The message of the parser may repeat a line, and with it a token.
    throw refuse("wanted YAML, got something else");
  }
}

function present(material: Readonly<Record<keyof InlineTls, Buffer | undefined>>): InlineTls {
  return Object.fromEntries(Object.entries(material).filter(([, value]) => value !== undefined));
}
