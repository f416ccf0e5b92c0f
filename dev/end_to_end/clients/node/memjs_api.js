// The whole of the `memjs` package, a client of the binary protocol, against the server at host:port; with `sasl` before it
// as a user of that server.
'use strict';

const assert = require('assert');
const memjs = require('memjs');

const server = process.argv[process.argv.length - 1];
const user = process.argv.includes('sasl') ? { username: 'me', password: 'secret' } : {};
const checks = [];
const check = (name, run) => checks.push({ name, run });

const client = (options) =>
  memjs.Client.create(server, { retries: 0, timeout: 60, conntimeout: 60, ...user, ...options });

check('values come back as they went', async (c) => {
  for (const value of ['', 'x', '\r\n', '\u0000', 'ä', 'v'.repeat(1000000)]) {
    assert.strictEqual(await c.set('a', value, {}), true);
    assert.strictEqual((await c.get('a')).value.toString(), value);
  }
  assert.strictEqual((await c.get('missing')).value, null);
});

check('add and replace mind what is there', async (c) => {
  assert.strictEqual(await c.replace('a', '1', {}), false);
  assert.strictEqual(await c.add('a', '1', {}), true);
  assert.strictEqual(await c.add('a', '2', {}), false);
  assert.strictEqual(await c.replace('a', '3', { expires: 100 }), true);
  assert.strictEqual((await c.get('a')).value.toString(), '3');
});

// Its prepend is an append, too.
check('append lengthens', async (c) => {
  await assert.rejects(c.append('a', 'x'), /not stored/);
  await c.set('a', 'm', {});
  assert.strictEqual(await c.append('a', 'z'), true);
  assert.strictEqual((await c.get('a')).value.toString(), 'mz');
});

check('numbers count', async (c) => {
  assert.strictEqual((await c.increment('n', 5, { initial: 10 })).value, 10);
  assert.strictEqual((await c.increment('n', 5, {})).value, 15);
  assert.strictEqual((await c.decrement('n', 100, {})).value, 0);
});

check('delete and touch say whether it was there', async (c) => {
  assert.strictEqual(await c.delete('a'), false);
  assert.strictEqual(await c.touch('a', 100), false);
  await c.set('a', '1', {});
  assert.strictEqual(await c.touch('a', 100), true);
  assert.strictEqual(await c.delete('a'), true);
  assert.strictEqual((await c.get('a')).value, null);
});

check('many at once', async (c) => {
  const keys = Array.from({ length: 300 }, (_, i) => `key${i}`);
  await Promise.all(keys.map((key) => c.set(key, key, {})));
  const values = await Promise.all(keys.map((key) => c.get(key)));
  assert.deepStrictEqual(values.map((it) => it.value.toString()), keys);
});

check('the server is asked about itself', async (c) => {
  const stats = await new Promise((resolve, reject) =>
    c.stats((error, _server, stats) => (error ? reject(error) : resolve(stats))));
  assert(Number(stats.pid) > 0 && Number(stats.limit_maxbytes) > 0);
});

(async () => {
  let failed = 0;
  for (const { name, run } of checks) {
    const c = client();
    try {
      await new Promise((resolve, reject) => c.flush((error) => (error ? reject(error) : resolve())));
      await run(c);
    } catch (error) {
      failed += 1;
      console.error(`FAILED ${name}`, error);
    }
    c.close();
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
