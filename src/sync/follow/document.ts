// The document of a policy as the API left it in the store: text, or, as early releases of the reference wrote it, a
// protobuf message.

/** The tags of the two fields that a policy has. */
const TAGS: readonly (number | undefined)[] = [0x0a, 0x12];

/** The document of a policy as it runs, from the wrapper in the store; undefined where another source made it. */
export async function runningDocument(
  wrapper: Uint8Array,
  source: "ETCD" | "K8S",
): Promise<string | undefined> {
  const { decode, encode } = await import("#wire/protobuf/messages.ts");
  const decoded = decode("aperture.policy.sync.v1.PolicyWrapper", wrapper);
  if (decoded.policy == null || decoded.source !== SOURCES[source]) return undefined;
  return documentText(encode("aperture.policy.language.v1.Policy", decoded.policy));
}

/** Numbers of the enum PolicyWrapper.Source. */
const SOURCES = { ETCD: 1, K8S: 2 } as const;

/** The text of a document; a message becomes JSON with every field, since an absent one had the zero of its type. */
export async function documentText(stored: Uint8Array): Promise<string> {
  if (!TAGS.includes(stored[0])) return textOf(stored);
  const { loadRegistry, messageOf } = await import("#wire/protobuf/descriptors.ts");
  const { fromBinary, toJson } = await import("@bufbuild/protobuf");
  const registry = await loadRegistry(["aperture.policy.language.v1.PolicyService"]);
  const type = messageOf(registry, "aperture.policy.language.v1.Policy");
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
