// Descriptors of the gRPC services, for server reflection and for JSON routes that look up messages by name. The
// generated code and its library are large; importing this file loads neither.

import type { AnyDesc, DescFile, DescMessage, Registry } from "@bufbuild/protobuf";

/** A service, and the methods of it that answer, as the keys of a record. */
export interface ServedService {
  readonly name: string;
  readonly methods: Readonly<Record<string, unknown>>;
}

/** The data of a reflection service. Files are serialized: the requested one first, then all that it imports. */
export interface Descriptors {
  /** All requested service names, even those without a descriptor. */
  services(): readonly string[];
  /** By full name of a service, method, message, field, oneof, enum, enum value or extension. */
  fileContainingSymbol(name: string): Uint8Array[] | undefined;
  /** By import path, such as `aperture/info/v1/info.proto`. */
  fileByName(name: string): Uint8Array[] | undefined;
}

/** The file that declares each service. */
const SERVICES: Readonly<Record<string, () => Promise<DescFile>>> = {
  "aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPointsService":
    async () =>
      (await import("#gen/aperture/autoscale/kubernetes/controlpoints/v1/controlpoints_pb.ts"))
        .file_aperture_autoscale_kubernetes_controlpoints_v1_controlpoints,
  "aperture.cmd.v1.Controller": async () =>
    (await import("#gen/aperture/cmd/v1/cmd_pb.ts")).file_aperture_cmd_v1_cmd,
  "aperture.discovery.entities.v1.EntitiesService": async () =>
    (await import("#gen/aperture/discovery/entities/v1/entities_pb.ts"))
      .file_aperture_discovery_entities_v1_entities,
  "aperture.flowcontrol.check.v1.FlowControlService": async () =>
    (await import("#gen/aperture/flowcontrol/check/v1/check_pb.ts"))
      .file_aperture_flowcontrol_check_v1_check,
  "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP": async () =>
    (await import("#gen/aperture/flowcontrol/checkhttp/v1/checkhttp_pb.ts"))
      .file_aperture_flowcontrol_checkhttp_v1_checkhttp,
  "aperture.flowcontrol.controlpoints.v1.FlowControlPointsService": async () =>
    (await import("#gen/aperture/flowcontrol/controlpoints/v1/controlpoints_pb.ts"))
      .file_aperture_flowcontrol_controlpoints_v1_controlpoints,
  "aperture.flowcontrol.preview.v1.FlowPreviewService": async () =>
    (await import("#gen/aperture/flowcontrol/preview/v1/preview_pb.ts"))
      .file_aperture_flowcontrol_preview_v1_preview,
  "aperture.info.v1.InfoService": async () =>
    (await import("#gen/aperture/info/v1/info_pb.ts")).file_aperture_info_v1_info,
  "aperture.peers.v1.PeerDiscoveryService": async () =>
    (await import("#gen/aperture/peers/v1/peers_pb.ts")).file_aperture_peers_v1_peers,
  "aperture.policy.language.v1.PolicyService": async () =>
    (await import("#gen/aperture/policy/language/v1/policy_pb.ts"))
      .file_aperture_policy_language_v1_policy,
  "aperture.status.v1.StatusService": async () =>
    (await import("#gen/aperture/status/v1/status_pb.ts")).file_aperture_status_v1_status,
  "envoy.service.accesslog.v3.AccessLogService": async () =>
    (await import("#gen/envoy/service/accesslog/v3/als_pb.ts")).file_envoy_service_accesslog_v3_als,
  "envoy.service.auth.v3.Authorization": async () =>
    (await import("#gen/envoy/service/auth/v3/external_auth_pb.ts"))
      .file_envoy_service_auth_v3_external_auth,
  "grpc.health.v1.Health": async () =>
    (await import("#gen/grpc/health/v1/health_pb.ts")).file_grpc_health_v1_health,
  "grpc.reflection.v1.ServerReflection": async () =>
    (await import("#gen/grpc/reflection/v1/reflection_pb.ts")).file_grpc_reflection_v1_reflection,
  "grpc.reflection.v1alpha.ServerReflection": async () =>
    (await import("#gen/grpc/reflection/v1alpha/reflection_pb.ts"))
      .file_grpc_reflection_v1alpha_reflection,
  "opentelemetry.proto.collector.logs.v1.LogsService": async () =>
    (await import("#gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.ts"))
      .file_opentelemetry_proto_collector_logs_v1_logs_service,
  "opentelemetry.proto.collector.trace.v1.TraceService": async () =>
    (await import("#gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.ts"))
      .file_opentelemetry_proto_collector_trace_v1_trace_service,
  "sluice.fleet.v1.AgentFunctions": async () =>
    (await import("#gen/sluice/fleet/v1/calls_pb.ts")).file_sluice_fleet_v1_calls,
};

/** Full names of all services that have a description. */
export const DESCRIBED_SERVICES: readonly string[] = Object.keys(SERVICES);

/**
 * Loads the descriptors of these services without methods and services that do not answer. A service without a descriptor
 * is listed but has no file.
 */
export async function loadDescriptors(served: readonly ServedService[]): Promise<Descriptors> {
  const [{ toBinary }, { nestedTypes }, { FileDescriptorProtoSchema }] = await Promise.all([
    import("@bufbuild/protobuf"),
    import("@bufbuild/protobuf/reflect"),
    import("@bufbuild/protobuf/wkt"),
  ]);
  const names = served.map(({ name }) => name);
  const methods = new Set(
    served.flatMap((service) =>
      Object.keys(service.methods).map((name) => `${service.name}.${name}`),
    ),
  );
  const answers = (service: string, method: string) => methods.has(`${service}.${method}`);
  const files = new Map<string, DescFile>();
  for (const file of await load(names))
    for (const each of [file, ...importsOf(file)]) files.set(pathOf(each), each);
  const symbols = new Map<string, DescFile>();
  for (const file of files.values())
    for (const desc of nestedTypes(file)) {
      const service = desc.kind === "service" ? desc.typeName : undefined;
      if (service !== undefined && !names.includes(service)) continue;
      for (const name of symbolsOf(desc))
        if (service === undefined || name === service || methods.has(name)) symbols.set(name, file);
    }
  const encode = ({ proto }: DescFile): Uint8Array => {
    const of = (name: string) => (proto.package === "" ? name : `${proto.package}.${name}`);
    const service = proto.service
      .filter(({ name }) => names.includes(of(name)))
      .map((each) => ({
        ...each,
        method: each.method.filter(({ name }) => answers(of(each.name), name)),
      }));
    return toBinary(FileDescriptorProtoSchema, { ...proto, service });
  };
  const serialized = (file: DescFile | undefined): Uint8Array[] | undefined =>
    file && [file, ...importsOf(file)].map(encode);
  return {
    services: () => names,
    fileContainingSymbol: (name) => serialized(symbols.get(name)),
    fileByName: (name) => serialized(files.get(name)),
  };
}

/** Loads all messages in the files of these services and in their imports: for JSON by name and for `Any`. */
export async function loadRegistry(serviceNames: readonly string[]): Promise<Registry> {
  const { createRegistry } = await import("@bufbuild/protobuf");
  const files = await load(serviceNames);
  return createRegistry(...files, ...files.flatMap(importsOf));
}

/** A message type in a registry. @throws Error for an unknown name */
export function messageOf(registry: Registry, name: string): DescMessage {
  const message = registry.getMessage(name);
  if (message === undefined) throw new Error(`${name} is not a known message`);
  return message;
}

async function load(names: readonly string[]): Promise<DescFile[]> {
  const files = await Promise.all(names.map((name) => SERVICES[name]?.()));
  return files.filter((file) => file !== undefined);
}

/** All direct and indirect imports of a file, each once. */
function importsOf(file: DescFile): DescFile[] {
  const found = new Set<DescFile>();
  const visit = ({ dependencies }: DescFile): void => {
    for (const dependency of dependencies) {
      if (found.has(dependency)) continue;
      found.add(dependency);
      visit(dependency);
    }
  };
  visit(file);
  return [...found];
}

/** Path of a file. The library stores it without its extension. */
function pathOf(file: DescFile): string {
  return `${file.name}.proto`;
}

/** The full names that a descriptor defines. Enum values are siblings of their enum, as in C++. */
function symbolsOf(desc: AnyDesc): string[] {
  if (!("typeName" in desc)) return [];
  const scope = desc.typeName.slice(0, desc.typeName.lastIndexOf(".") + 1);
  return [desc.typeName, ...membersOf(desc, scope)];
}

function membersOf(desc: AnyDesc, scope: string): string[] {
  const member = ({ name }: { readonly name: string }): string => `${scope}${desc.name}.${name}`;
  if (desc.kind === "message") return [...desc.fields, ...desc.oneofs].map(member);
  if (desc.kind === "service") return desc.methods.map(member);
  return desc.kind === "enum" ? desc.values.map(({ name }) => scope + name) : [];
}
