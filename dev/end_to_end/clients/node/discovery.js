// Auto-discovery of the `memcached-elasticache` package: it follows the members in the file of `--cluster-file`. Arguments: the
// file, and the addresses of three servers that read it.
'use strict';

const assert = require('assert');
const fs = require('fs');
const net = require('net');
const Memcached = require('memcached-elasticache');

// For failures only: the machine may be busy.
const PATIENCE_MS = 60000;
const KEYS = Array.from({ length: 300 }, (_, i) => `key${i}`);

const [file, ...members] = process.argv.slice(2, 6);
let revision = 0;

const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const until = async (what, is) => {
  const end = Date.now() + PATIENCE_MS;
  while (!(await is())) {
    assert(Date.now() < end, what);
    await pause();
  }
};

// A statistic of a server.
const figure = (member, name) =>
  new Promise((resolve, reject) => {
    const [host, port] = members[member].split(':');
    const connection = net.connect(port, host, () => connection.write('stats\r\n'));
    let reply = '';
    connection.on('error', reject);
    connection.on('data', (bytes) => {
      reply += bytes;
      if (!reply.endsWith('END\r\n')) return;
      connection.destroy();
      resolve(Number(new RegExp(`^STAT ${name} (\\d+)`, 'm').exec(reply)[1]));
    });
  });

// Names the first members in the file, and waits until all have read it.
const name = async (count) => {
  revision += 1;
  const lines = members.slice(0, count).map((member) => member.replace(':', '||'));
  fs.writeFileSync(`${file}.new`, `${revision}\n${lines.join('\n')}\n`);
  fs.renameSync(`${file}.new`, file);
  for (let member = 0; member < members.length; member += 1) {
    await until('the file is read', async () =>
      (await figure(member, 'evenkeel_cluster_revision')) === revision);
  }
};

const setAll = (client) =>
  Promise.all(KEYS.map((key) => new Promise((resolve, reject) => {
    client.set(key, key, 0, (error) => (error ? reject(error) : resolve()));
  })));

const checks = [
  ['keys reach a server that is added and leave one that is removed', async () => {
    await name(2);
    const client = new Memcached(members[0], { autoDiscoverInterval: 100, timeout: PATIENCE_MS });
    let found = [];
    client.on('autoDiscover', (nodes) => { found = nodes; });
    client.on('autoDiscoverFailure', (error) => console.error(error));
    await until('two servers are found', () => found.length === 2);
    await setAll(client);
    assert.strictEqual(await figure(2, 'cmd_set'), 0);
    await name(3);
    await until('three servers are found', () => found.length === 3);
    await setAll(client);
    const added = await figure(2, 'cmd_set');
    assert(added > 50, `${added} keys`);
    await name(2);
    await until('two servers are left', () => found.length === 2);
    await setAll(client);
    assert.strictEqual(await figure(2, 'cmd_set'), added);
    client.end();
  }],
];

(async () => {
  let failed = 0;
  for (const [sentence, run] of checks) {
    await run().catch((error) => {
      failed += 1;
      console.error(`FAILED ${sentence}: ${error.stack}`);
    });
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
