// Messages for a newcomer whose settings Redis refuses: they name the setting, the server and its words, and no secret.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { after, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import { RedisConnection } from "#counters/redis/connection.ts";
import type { RedisSettings } from "#counters/settings.ts";
import { realClock } from "#runtime/life/clock.ts";
import { startRedis, startRedisCluster, startTlsRedis } from "../../kit/servers/redis.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { silentLog } from "../../kit/sluice/log.ts";

const here = { after: (end: () => void) => after(end) };
const SECRET = "correct-horse";
const redis = await startRedis(here, {
  settings: [
    `user default on >${SECRET} ~* +@all`,
    `user reader on >${SECRET} ~* -@all +@read +hello +info`,
    `user elsewhere on >${SECRET} ~other:* +@all`,
    "databases 4",
  ],
  password: SECRET,
});
const at = `127.0.0.1:${redis.port}`;

type Given = Partial<Omit<RedisSettings, "sentinel" | "tls">> & {
  readonly sentinel?: Partial<RedisSettings["sentinel"]>;
  readonly tls?: Partial<RedisSettings["tls"]>;
};

/** The message of a failed `connect`, or the reason why Redis is away afterwards. Undefined when it succeeds. */
async function said(
  { sentinel, tls, ...given }: Given,
  clock = realClock(),
): Promise<string | undefined> {
  const settings: RedisSettings = {
    url: redis.url,
    username: "",
    password: "",
    cluster: false,
    nodes: [],
    namespace: "sluice",
    timeout: 5_000,
    probe_interval: 1_000,
    max_pending: 100,
    sentinel: { master: "", addresses: [], username: "", password: "", ...sentinel },
    tls: { ca_file: "", cert_file: "", key_file: "", insecure_skip_verify: false, ...tls },
    ...given,
  };
  const connection = new RedisConnection({
    settings,
    clock,
    log: silentLog(),
    lost: () => undefined,
  });
  try {
    const away = await connection.connect();
    return away === undefined ? undefined : `away: ${away}`;
  } catch (thrown) {
    const text = String(thrown);
    assert.match(text, /counters\.redis: wanted a server that accepts these settings, but /);
    assert.doesNotMatch(text, new RegExp(`${SECRET}|battery-staple`));
    return text.replace(/^.*these settings, but /, "");
  } finally {
    connection.close();
  }
}

/** A clock that ends no wait of ours, so that only the time limits of the client library do. */
function withoutAlarms(): Clock {
  return { ...realClock(), alarm: () => () => undefined };
}

test("passwords, users and rights", async () => {
  const nobody = 'the user "default" (counters.redis.username is empty)';
  assert.equal(
    await said({}),
    `the server at ${at} wants a password for ${nobody}, and counters.redis.password is empty (NOAUTH)`,
  );
  assert.equal(
    await said({ password: "battery-staple" }),
    `the server at ${at} does not accept counters.redis.password for ${nobody}, or has no such user (WRONGPASS)`,
  );
  assert.equal(
    await said({ username: "unknown", password: SECRET }),
    `the server at ${at} does not accept counters.redis.password for the user "unknown" (counters.redis.username), or has no such user (WRONGPASS)`,
  );
  for (const username of ["reader", "elsewhere"]) {
    const text = await said({ username, password: SECRET });
    const wanted = `the server at ${at} does not let the user "${username}" (counters.redis.username) count, who needs the rights that docs/counters.md names: `;
    assert.equal(text?.slice(0, wanted.length + 6), `${wanted}NOPERM`);
  }
  assert.equal(await said({ password: SECRET }), undefined);
});

test("a port of something else is not taken for one of TLS", async (t) => {
  const http = createServer((_, answer) => void answer.end());
  const silent = createTcpServer((socket) => void socket.destroy());
  const portOf = async (server: Server) => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    return (server.address() as AddressInfo).port;
  };
  const web = await portOf(http);
  assert.equal(
    await said({ url: `redis://127.0.0.1:${web}` }),
    `away: something that is no Redis answers for the server at 127.0.0.1:${web} (counters.redis.url)`,
  );
  const closing = await portOf(silent);
  assert.match(
    (await said({ url: `redis://127.0.0.1:${closing}` })) ?? "",
    /^away: .* may be that its port speaks only TLS, or that it is no Redis \(counters\.redis\.url\)$/,
  );
});

test("databases and clusters", async (t) => {
  const password = SECRET;
  assert.match(
    (await said({ password, url: `${redis.url}/4` })) ?? "",
    /does not have the database that counters\.redis\.url names: SELECT: ERR DB index/,
  );
  assert.match(
    (await said({ password, cluster: true })) ?? "",
    /^counters\.redis\.cluster is true, and the server at .* is no cluster: /,
  );
  const nodes = await startRedisCluster(t);
  const apart = await Promise.all(nodes.map(({ url }) => said({ url })));
  const moved = apart.filter((text) => text !== undefined);
  assert.equal(moved.length, nodes.length - 1, "the key of the probe lies on one of them");
  for (const text of moved) {
    assert.match(
      text,
      /^counters\.redis\.cluster is false, and the server at .* is a node of a cluster: MOVED /,
    );
  }
});

test("Sentinels", async (t) => {
  const watching = [`sentinel monitor shop 127.0.0.1 ${redis.port} 1`, `requirepass ${SECRET}`];
  const { port } = await startRedis(t, { sentinel: true, settings: watching, password: SECRET });
  const addresses = [`127.0.0.1:${port}`];
  const where = `the Sentinels at 127.0.0.1:${port}`;
  assert.equal(
    await said({ sentinel: { master: "shop", addresses } }),
    `${where} want a password, and counters.redis.sentinel.password is empty (NOAUTH)`,
  );
  assert.equal(
    await said({ sentinel: { master: "shop", addresses, password: "battery-staple" } }),
    `${where} do not accept counters.redis.sentinel.username and counters.redis.sentinel.password (WRONGPASS)`,
  );
  assert.equal(
    await said({ sentinel: { master: "shoes", addresses, password: SECRET } }),
    `${where} know no "shoes", which counters.redis.sentinel.master names (ERR No such master with that name)`,
  );
  assert.match(
    (await said({ sentinel: { master: "shop", addresses, password: SECRET } })) ?? "",
    /^the master "shop" of the Sentinels wants a password .*counters\.redis\.password is empty/,
  );
});

test("TLS", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("redis");
  const client = ca.issue("agent");
  const host = await startTlsRedis(t, server, ca.certFile);
  const url = `rediss://${host}`;
  const tls = { ca_file: ca.certFile, cert_file: client.certFile, key_file: client.keyFile };
  assert.equal(await said({ url, tls }), undefined);
  assert.match(
    (await said({ url, tls: { ...tls, ca_file: "" } })) ?? "",
    /^the certificate of the server at .* is not trusted, counters\.redis\.tls\.ca_file names who issues it: self-signed/,
  );
  // The server says why it refuses a certificate, and closes; sometimes only the latter arrives.
  const closed = `it wants another client certificate \\(counters\\.redis\\.tls\\.cert_file`;
  const wants = `wants a client certificate that it trusts: counters\\.redis\\.tls\\.cert_file and`;
  assert.match(
    (await said({ url, tls: { ca_file: ca.certFile } })) ?? "",
    new RegExp(`the server at ${host}.*(${wants}|${closed})`),
  );
  const stranger = authority(folder, "other").issue("stranger");
  const strange = { cert_file: stranger.certFile, key_file: stranger.keyFile };
  const declined = "does not accept the certificate in counters\\.redis\\.tls\\.cert_file: ";
  assert.match(
    (await said({ url, tls: { ca_file: ca.certFile, ...strange } })) ?? "",
    new RegExp(`the server at ${host}.*(${declined}|${closed})`),
  );
  // Whichever of the two time limits comes first: ours, or that of the client library.
  for (const clock of [realClock(), withoutAlarms()]) {
    assert.match(
      (await said({ url: redis.url.replace("redis:", "rediss:") }, clock)) ?? "",
      /^away: no reply in .*, from the server at .* may be that its port does not speak TLS \(counters\.redis\.url\)/,
    );
  }
  assert.match(
    (await said({ url: `redis://${host}` })) ?? "",
    /^away: .*, from the server at .* may be that its port speaks only TLS/,
  );
});
