// The mutation of generated pods: the result is valid, keeps what was there, and does not change a second time.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isObject, type JsonObject, listAt } from "#injector/pod.ts";
import { assertTwice } from "../../kit/properties/twice.ts";
import {
  assertKept,
  assertValid,
  injected,
  injectInto,
  MODERN,
  OLD,
  podWith,
  SETTINGS,
} from "../kit.ts";

const port = fc.record({
  containerPort: fc.constantFrom(80, 443, 8080, 9000, 10_000, 8888),
  protocol: fc.constantFrom("TCP", "UDP"),
});
const probe = fc.constant({ tcpSocket: { port: 1 } });
const container = (name: fc.Arbitrary<string>) =>
  fc.record(
    {
      name,
      image: fc.constantFrom("a:1", "auto", "b@sha256:0"),
      imagePullPolicy: fc.constantFrom("Always", "Never"),
      ports: fc.uniqueArray(port, { maxLength: 2, selector: ({ containerPort }) => containerPort }),
      env: fc.uniqueArray(
        fc.record({
          name: fc.constantFrom("A", "POD_IP", "SVC_AGENT_SERVER_LISTENER_ADDR"),
          value: fc.string(),
        }),
        { selector: ({ name: variable }) => variable },
      ),
      resources: fc.constantFrom({}, { limits: { cpu: "1" } }),
      securityContext: fc.constantFrom({}, { runAsUser: 1 }),
      lifecycle: fc.constantFrom({}, { postStart: { exec: { command: ["a"] } } }),
      volumeMounts: fc.constantFrom([], [{ name: "data", mountPath: "/data" }]),
    },
    { requiredKeys: ["name", "image"] },
  );
/** A container that injection merges. It fills in the image of an Envoy only where the pod gets one. */
const agentLike = fc.oneof(
  fc.record(
    {
      name: fc.constantFrom("sluice-agent", "aperture-agent"),
      image: fc.constantFrom("", "auto", "own:1"),
      livenessProbe: probe,
      args: fc.constant(["agent", "--x"]),
    },
    { requiredKeys: ["name", "image"] },
  ),
  fc.record({ name: fc.constant("sluice-envoy"), image: fc.constant("own:1") }),
);
const pods = fc
  .record({
    annotations: fc.dictionary(
      fc.constantFrom(
        "sluice/inject",
        "sluice/agent-group",
        "sluice/port",
        "sluice/envoy-inject",
        "sluice/application-port",
        "sluice/resources-cpu-limit",
        "sluice/envoy-resources-cpu-limit",
        "sluice/unknown",
        "a/b~c",
      ),
      fc.constantFrom("true", "9090", "100m", "x"),
      { maxKeys: 2 },
    ),
    init: fc.uniqueArray(container(fc.constantFrom("i1", "i2")), {
      selector: ({ name }) => name,
      maxLength: 2,
    }),
    main: fc.uniqueArray(container(fc.constantFrom("c1", "c2", "istio-proxy")), {
      selector: ({ name }) => name,
      minLength: 1,
      maxLength: 3,
    }),
    own: fc.option(fc.tuple(agentLike, fc.boolean())),
    abilities: fc.constantFrom(MODERN, OLD, { nativeSidecars: true, sleepAction: false }),
    envoy: fc.boolean(),
    grace: fc.constantFrom(0, 30, 600),
  })
  .map(({ annotations, init, main, own, abilities, envoy, grace }) => {
    const [added, isInit] = own ?? [undefined, false];
    const initContainers =
      added !== undefined && isInit ? [...init, { ...added, restartPolicy: "Always" }] : init;
    const containers = added !== undefined && !isInit ? [...main, added] : main;
    const noLifecycle = initContainers.map(({ ...each }) => {
      const { lifecycle: _, ...others } = each as JsonObject;
      return others;
    });
    const pod = podWith({
      annotations,
      spec: {
        initContainers: noLifecycle,
        containers,
        volumes: [{ name: "data", emptyDir: {} }],
        terminationGracePeriodSeconds: grace,
      } as unknown as JsonObject,
    });
    const settings = {
      ...SETTINGS,
      pullSecrets: ["registry"],
      envoy: { ...SETTINGS.envoy, inject: envoy },
    };
    return { pod, changed: { abilities, settings } };
  });

test("whatever the pod is, a patch makes a valid pod, keeps what was there, and changes nothing a second time", () => {
  let count = 0;
  assertTwice(
    fc.property(pods, ({ pod, changed }) => {
      const found = injectInto(pod, changed);
      if (found.outcome !== "injected") return;
      count++;
      const { whole } = injected(pod, changed);
      if (changed.abilities.nativeSidecars) assertValid(whole);
      const { spec: before, ...others } = pod;
      const { spec: after, ...same } = whole;
      assertKept(others, same, "");
      assertKept(withoutFilled(before as JsonObject), after, "/spec");
      assert.equal(injectInto(whole, changed).outcome, "unchanged");
    }),
    500,
  );
  assert.ok(count > 100, `${count} pods were injected`);
});

/** Without what injection may replace: images that ask to be filled in, and empty objects. */
function withoutFilled(spec: JsonObject): JsonObject {
  const clean = (list: JsonObject["x"]) =>
    listAt(list).map((each) =>
      Object.fromEntries(
        Object.entries(each).filter(
          ([key, value]) =>
            !(
              ["", "auto"].includes(String(each["image"])) &&
              ["image", "imagePullPolicy"].includes(key)
            ) && !(isObject(value) && Object.keys(value).length === 0),
        ),
      ),
    );
  return {
    ...spec,
    initContainers: clean(spec["initContainers"] ?? []),
    containers: clean(spec["containers"] ?? []),
  };
}
