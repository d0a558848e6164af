// Reads the document of a policy from the store: text, or a protobuf message, as early releases of the reference wrote it.

/** The tags of the two fields that a policy has. */
const TAGS: readonly (number | undefined)[] = [0x0a, 0x12];

/** The document of a running policy from its wrapper in the store; undefined if the wrapper has none. */
export async function runningDocument(
  wrapper: Uint8Array,
): Promise<{ readonly source: StoredSource; readonly text: string } | undefined> {
  const { decode, encode } = await import("#wire/protobuf/messages.ts");
  const { policy, source } = decode("aperture.policy.sync.v1.PolicyWrapper", wrapper);
  if (policy == null) return undefined;
  const text = await documentText(encode("aperture.policy.language.v1.Policy", policy));
  return { source: SOURCES[source] ?? "UNKNOWN", text };
}

/** The source from which a leader loaded a policy: the API, a resource, or files (UNKNOWN). */
type StoredSource = "UNKNOWN" | "ETCD" | "K8S";

/** By number in the enum PolicyWrapper.Source. */
const SOURCES: readonly (StoredSource | undefined)[] = ["UNKNOWN", "ETCD", "K8S"];

/** The text of a document. A message becomes JSON with every field, because an absent field means the zero of its type. */
export async function documentText(stored: Uint8Array): Promise<string> {
  if (!TAGS.includes(stored[0])) return textOf(stored);
  const { registry, schemaOf } = await import("#wire/protobuf/descriptors.ts");
  const { fromBinary, toJson } = await import("@bufbuild/protobuf");
  const type = schemaOf("aperture.policy.language.v1.Policy");
  try {
    const form = { registry, useProtoFieldName: true, alwaysEmitImplicit: true };
    return JSON.stringify(toJson(type, fromBinary(type, stored), form));
  } catch {
    // Text may begin with an empty line, which is the first tag.
    return textOf(stored);
  }
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
