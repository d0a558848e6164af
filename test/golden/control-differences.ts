// The recordings of the controller that are replayed, and the steps that Sluice answers differently, each with its
// reason. A listed step that passes fails the test.

/** Recordings that are not replayed, each with the part that it needs and Sluice lacks. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  crashes: "what stops the recorded process; `control-api.test.ts` has what is right instead",
};

/** Recordings of a controller of its own and its etcd, which `control-store.ts` replays. */
export const OVER_ETCD: ReadonlySet<string> = new Set([
  "etcd-writes",
  "grpc-cmd-controller",
  "grpc-cmd-controller-with-agent",
  "policy-legacy-binary",
  "policy-statuses",
  "status-and-info",
  // The requests and answers in the store of `grpc-cmd-controller-with-agent`.
  "etcd-rpc",
]);

/** Recordings with a policy that is a Kubernetes resource. */
export const AS_RESOURCES: ReadonlySet<string> = new Set(["policy-cr-owned"]);

const UNKNOWN_KIND = "an unknown kind of decision is refused by name (D-20)";
const EARLY = "a load scheduler decides after ten seconds, for which this test does not wait";
const OBJECT = "the object form gets its defaults as the text does (D-11)";
const BOTH = "answered with and without the slash";
const SLASH = "a name with a slash is refused for what it is (D-23)";
const METHOD = "a method that is not mapped is 405";
const UNREAD_KEY = "the reply warns of keys that no component reads";
const NOT_UNKNOWN =
  "a client's mistake is not reported as UNKNOWN (D-17), and a group without agents is NOT_FOUND (D-21)";
const CACHES = "not built yet: caches";
const TREE = "the jobs in the status tree are those of this implementation";
/** Steps that Sluice answers differently on purpose: file and step, with the reason. */
export const OURS: Readonly<Record<string, string>> = {
  "decisions 1": EARLY,
  "decisions 6": UNKNOWN_KIND,
  "decisions 7": EARLY,
  "decisions 8": BOTH,
  "decisions 9": EARLY,
  "dynamic-config 2": UNREAD_KEY,
  "dynamic-config 6": UNREAD_KEY,
  "dynamic-config 9": "a request that lacks what it must have is 400",
  "dynamic-config 18": "the policy's own value is back when the configuration is taken away (D-7)",
  "grpc-policy-service 7": "a request that lacks what it must have is INVALID_ARGUMENT",
  "etcd-rpc 9": CACHES,
  "etcd-rpc 10": CACHES,
  "etcd-rpc 11": CACHES,
  "etcd-rpc 12": CACHES,
  "etcd-rpc 13": CACHES,
  "etcd-writes 4": "the policy's own value is back when the configuration is taken away (D-7)",
  "grpc-cmd-controller 3": NOT_UNKNOWN,
  "grpc-cmd-controller 4": NOT_UNKNOWN,
  "grpc-cmd-controller 7": NOT_UNKNOWN,
  "grpc-cmd-controller 8": NOT_UNKNOWN,
  "grpc-cmd-controller 11": NOT_UNKNOWN,
  "grpc-cmd-controller 13": NOT_UNKNOWN,
  "grpc-cmd-controller 14": NOT_UNKNOWN,
  "grpc-cmd-controller 15": NOT_UNKNOWN,
  "grpc-cmd-controller 25": TREE,
  "grpc-cmd-controller 26": TREE,
  "grpc-cmd-controller 27": TREE,
  "grpc-cmd-controller 29":
    "services of all agents are listed; the recorded process has no such method",
  "grpc-cmd-controller-with-agent 2": NOT_UNKNOWN,
  "grpc-cmd-controller-with-agent 12": CACHES,
  "grpc-cmd-controller-with-agent 13": CACHES,
  "grpc-cmd-controller-with-agent 14": CACHES,
  "grpc-cmd-controller-with-agent 15": CACHES,
  "grpc-cmd-controller-with-agent 16": CACHES,
  "policies-empty 11": UNKNOWN_KIND,
  "policies-empty 13": BOTH,
  "policy-cr-owned 5": "a policy of a resource is not removed over the API (D-24)",
  "policy-mutated-get 2": "the document is given back as it came",
  "policy-object-form 1": OBJECT,
  "policy-object-form 3": OBJECT,
  "policy-object-form 5": OBJECT,
  "policy-upsert-errors 8": METHOD,
  "policy-upsert-errors 10": METHOD,
  "policy-upsert-errors 11": "no such path",
  "policy-upsert-errors 12": SLASH,
  "policy-upsert-errors 15": SLASH,
  "status-and-info 1": TREE,
  "status-and-info 2": TREE,
  "status-and-info 3": TREE,
  "status-and-info 4": TREE,
  "status-and-info 7": TREE,
  "status-and-info 8": TREE,
  "status-and-info 15": "the gateway of the recorded process did not reach its own port",
};
