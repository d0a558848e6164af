// Keys of the injector: what it puts into pods, and its webhook.

import { formatDuration } from "#base/duration.ts";
import { anyText, listenAddress, type TextFormat } from "../table/format.ts";
import {
  bool,
  choice,
  duration,
  number,
  object,
  ownTable,
  string,
  strings,
  text,
  type Violation,
} from "../table/row.ts";
import { broken } from "../table/rule.ts";
import { PAIR_OF_FILES } from "./client.ts";

const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

const quantity: TextFormat = {
  wanted: "empty or a quantity, such as 100m or 128Mi",
  example: "128Mi",
  accepts: (text) => text === "" || /^\d{1,15}(\.\d{1,9})?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$/.test(text),
};

export const objectName: TextFormat = {
  wanted: "the name of a Kubernetes object",
  example: "a.b",
  accepts: (text) => NAME.test(text),
};

const NAMESPACE = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

export const namespaceName: TextFormat = {
  wanted: "the name of a Kubernetes namespace",
  example: "team-a",
  accepts: (text) => NAMESPACE.test(text),
};

const optionalName: TextFormat = {
  wanted: `empty or ${objectName.wanted}`,
  example: objectName.example,
  accepts: (text) => text === "" || NAME.test(text),
};

/** `KEY=SECRET/ENTRY`. */
const SECRET_REFERENCE =
  /^([a-z][a-z0-9_.]*)=([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)\/([\w.-]{1,253})$/;

const secretReference: TextFormat = {
  wanted: "KEY=SECRET/ENTRY: a key of the agent, and the Secret and its entry that hold the value",
  example: "etcd.password=sluice-agent/etcd-password",
  accepts: (text) => SECRET_REFERENCE.test(text),
};

/** A name without `=`, which the kubelet takes, and any text. */
const ENTRY_OF_ENVIRONMENT = /^[A-Za-z_][A-Za-z0-9_.-]*=/;

const environmentEntry: TextFormat = {
  wanted: "NAME=VALUE: a variable that is no key of the agent (SVC_AGENT_…), and its value",
  example: "EMPTY=",
  accepts: (text) => ENTRY_OF_ENVIRONMENT.test(text) && !text.startsWith("SVC_AGENT_"),
};

const POSITIVE_PORT = { min: 1, max: 65_535 } as const;

const resources = (name: string, memoryRequest: string) =>
  ownTable(name, "Resources of a container. An empty quantity is left out.", {
    cpu_limit: string(
      "2",
      quantity,
      "Limit of processor time. Quotas of namespaces often demand one; two cores are more than it needs.",
    ),
    cpu_request: string("100m", quantity, "Request of processor time."),
    memory_limit: string("512Mi", quantity, "Limit of memory."),
    memory_request: string(memoryRequest, quantity, "Request of memory."),
  });

const pullPolicy = choice(
  "",
  ["", "Always", "IfNotPresent", "Never"] as const,
  "When the image is pulled. Empty means as Kubernetes chooses by the tag.",
  { own: true },
);

const user = (id: number) =>
  number("uint32", id, "User of the container. 0 leaves the choice to the cluster.", { own: true });

export const sidecarConfig = ownTable(
  "SidecarConfig",
  "The agent that is put into pods. Its own configuration is what the agent's keys are set to here, in the file or as SVC_AGENT_ variables.",
  {
    certificates: string(
      "",
      optionalName,
      "Secret that sidecars mount at /etc/sluice/certificates. Its files that keys of the agent name are copied from the injector's namespace into labelled ones and kept in step.",
    ),
    config_map: string(
      "",
      optionalName,
      "ConfigMap of the injector's namespace with more variables: SVC_INJECTOR_SIDECAR_…, SVC_INJECTOR_ENVOY_… and SVC_AGENT_…, over which those of the injector's environment win. It is followed: a change applies to pods that start afterwards. Entries with faults are reported, and the last good ones stay in force.",
    ),
    extra_env: strings(
      environmentEntry,
      "Further variables of the agent's container. Keys of the agent have variables of their own, SVC_AGENT_….",
    ),
    image: text("Image of Sluice. Required, here or in the ConfigMap."),
    image_pull_policy: pullPolicy,
    pull_secrets: strings(
      objectName,
      "Secrets of the type kubernetes.io/dockerconfigjson with which pods pull the images of sidecars. They are copied from the injector's namespace into labelled ones and kept in step.",
    ),
    resources: object(resources("SidecarResources", "128Mi")),
    run_as_user: user(65_532),
    secrets: strings(
      secretReference,
      "Keys of the agent whose values are in Secrets. These entries are copied from the injector's namespace into labelled ones and kept in step; a changed value reaches pods that start afterwards.",
    ),
  },
  ({ config_map, image }) =>
    image.trim() === "" && config_map === ""
      ? [{ key: "image", wanted: "the image of Sluice", got: "nothing" }]
      : [],
);

export const envoyConfig = ownTable(
  "InjectedEnvoyConfig",
  "The Envoy that is put before an application where there is no mesh.",
  {
    admin_port: number("uint32", 9_901, "Port of its administration on 127.0.0.1.", POSITIVE_PORT),
    application_sleep: duration(
      "5s",
      "Time for which an application goes on after its pod was told to end, until all clients know. It is not set where the application has a preStop of its own. Whole seconds.",
    ),
    client_baggage: choice(
      "ignore",
      ["ignore", "believe"],
      "Whether members of the `baggage` header of requests may become labels. Clients choose that header: `believe` is for those that are services of your own. The annotation sluice/envoy-client-baggage says so for one pod.",
    ),
    concurrency: number("uint32", 2, "Worker threads.", { min: 1, max: 1_024 }),
    image: string(
      "envoyproxy/envoy:distroless-v1.40.0",
      anyText,
      "Image of Envoy. Where the cluster has no native sidecars, one that has the program `sleep`.",
    ),
    image_pull_policy: pullPolicy,
    inject: bool(
      false,
      "Put an Envoy into every pod that does not say otherwise by the annotation sluice/envoy-inject. Let targetPort of Services be its port.",
    ),
    port: number("uint32", 10_000, "Port that clients call.", POSITIVE_PORT),
    resources: object(resources("InjectedEnvoyResources", "64Mi")),
    run_as_user: user(101),
  },
  ({ admin_port, port }) =>
    admin_port === port
      ? [{ key: "admin_port", wanted: "another port than envoy.port", got: `${port}` }]
      : [],
);

/** A third of each lifetime is left when a certificate is replaced, and the steps of that need time. */
function stepsFit({
  authority_lifetime,
  certificate_lifetime,
  overlap,
  ...files
}: {
  readonly authority_lifetime: number;
  readonly certificate_lifetime: number;
  readonly overlap: number;
  readonly cert_file: string;
  readonly key_file: string;
}): readonly Violation[] {
  const violations = [...broken(PAIR_OF_FILES, files)];
  const shortest = Math.min(authority_lifetime, certificate_lifetime);
  if (overlap * 9 > shortest) {
    const wanted = "at most a ninth of certificate_lifetime and of authority_lifetime";
    violations.push({ key: "overlap", wanted, got: formatDuration(overlap) });
  }
  if (certificate_lifetime > authority_lifetime) {
    const wanted = "at most authority_lifetime";
    violations.push({
      key: "certificate_lifetime",
      wanted,
      got: formatDuration(certificate_lifetime),
    });
  }
  return violations;
}

export const webhookConfig = ownTable(
  "WebhookConfig",
  "The webhook that the Kubernetes API server calls for each new pod, and its certificates.",
  {
    addr: string(
      ":9443",
      listenAddress,
      "Address of the webhook, which is always served over TLS.",
    ),
    authority_lifetime: duration(
      "576h",
      "Lifetime of the authority that the injector makes. It is replaced when a third of it is left.",
      { least: "10s" },
    ),
    cert_file: text(
      "File with the certificate, where others make it (cert-manager). The injector then makes none, and changes neither Secret nor webhook configuration.",
    ),
    certificate_lifetime: duration(
      "168h",
      "Lifetime of the certificates that the injector makes. A certificate is replaced when a third of its lifetime is left.",
      { least: "10s" },
    ),
    configuration: string(
      "sluice-injector",
      optionalName,
      "The MutatingWebhookConfiguration whose caBundle the injector keeps. Empty: others do.",
    ),
    key_file: text("File with the private key of cert_file."),
    overlap: duration(
      "10m",
      "Time for which API servers trust a new authority before it is used, and an old one after it was used for the last time.",
      { least: "1s" },
    ),
    secret: string(
      "sluice-injector-tls",
      objectName,
      "The Secret of its namespace in which replicas share what they make.",
    ),
    service: string(
      "sluice-injector",
      objectName,
      "The Service by which the API server calls the webhook; certificates are for SERVICE.NAMESPACE.svc.",
    ),
  },
  stepsFit,
);
