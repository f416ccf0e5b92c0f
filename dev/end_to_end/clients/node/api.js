// The whole of the `memcached` package against the server at host:port.
'use strict';

const assert = require('assert');
const Memcached = require('memcached');

const server = process.argv[2];
const checks = [];
const check = (name, run) => checks.push({ name, run });

// Each call as a promise: [value] or a thrown error.
function client(options) {
  const inner = new Memcached(server, { retries: 0, timeout: 60000, maxKeySize: 250, maxValue: 4 << 20, ...options });
  const call = (method, ...args) =>
    new Promise((resolve, reject) => inner[method](...args, (error, value) => (error ? reject(error) : resolve(value))));
  return new Proxy(inner, { get: (_, method) => (method === 'inner' ? inner : (...args) => call(method, ...args)) });
}

const fails = (promise, words) => assert.rejects(promise, (error) => String(error).includes(words));

check('values come back as they went', async (c) => {
  for (const value of ['', 'x', '\r\n', 'END\r\n', 'ä', 'v'.repeat(1000000)]) {
    assert.strictEqual(await c.set('a', value, 0), true);
    assert.strictEqual(await c.get('a'), value);
  }
  assert.strictEqual(await c.get('missing'), undefined);
});

check('flags carry types', async (c) => {
  await c.set('number', 42, 0);
  await c.set('tree', { a: [1, { b: null }] }, 0);
  await c.set('buffer', Buffer.from([0, 255, 13, 10]), 0);
  await c.set('no', false, 0);
  assert.strictEqual(await c.get('number'), 42);
  assert.deepStrictEqual(await c.get('tree'), { a: [1, { b: null }] });
  assert.deepStrictEqual(await c.get('buffer'), Buffer.from([0, 255, 13, 10]));
  assert.strictEqual(await c.get('no'), false);
});

check('add and replace mind what is there', async (c) => {
  await fails(c.replace('a', '1', 0), 'not stored');
  assert.strictEqual(await c.add('a', '1', 0), true);
  await fails(c.add('a', '2', 0), 'not stored');
  assert.strictEqual(await c.replace('a', '3', 0), true);
  assert.strictEqual(await c.get('a'), '3');
});

check('append and prepend lengthen', async (c) => {
  await fails(c.append('a', 'x'), 'not stored');
  await c.set('a', 'm', 0);
  assert.strictEqual(await c.append('a', 'z'), true);
  assert.strictEqual(await c.prepend('a', 'a'), true);
  assert.strictEqual(await c.get('a'), 'amz');
});

check('cas stores once', async (c) => {
  await c.set('a', '1', 0);
  const { a, cas } = await c.gets('a');
  assert.strictEqual(a, '1');
  assert.strictEqual(await c.cas('a', '2', cas, 0), true);
  assert.strictEqual(await c.cas('a', '3', cas, 0), false);
  assert.strictEqual(await c.get('a'), '2');
});

check('many at once', async (c) => {
  const keys = Array.from({ length: 500 }, (_, i) => `key${i}`);
  await Promise.all(keys.map((key) => c.set(key, key, 0)));
  const values = await c.getMulti([...keys, 'missing']);
  assert.strictEqual(Object.keys(values).length, 500);
  assert.strictEqual(values.key499, 'key499');
  assert.deepStrictEqual(await c.get(['key1', 'key2']), { key1: 'key1', key2: 'key2' });
});

check('numbers count', async (c) => {
  assert.strictEqual(await c.incr('n', 1), false);
  await c.set('n', 10, 0);
  assert.strictEqual(await c.incr('n', 5), 15);
  assert.strictEqual(await c.decr('n', 6), 9);
  assert.strictEqual(await c.decr('n', 100), 0);
  await c.set('w', 'words', 0);
  await fails(c.incr('w', 1), 'non-numeric');
});

check('delete says whether it was there', async (c) => {
  assert.strictEqual(await c.del('a'), false);
  await c.set('a', '1', 0);
  assert.strictEqual(await c.del('a'), true);
  assert.strictEqual(await c.get('a'), undefined);
});

check('touch prolongs', async (c) => {
  assert.strictEqual(await c.touch('a', 10), false);
  await c.set('a', '1', 100);
  assert.strictEqual(await c.touch('a', 200), true);
  assert.strictEqual(await c.get('a'), '1');
});

check('flush empties it', async (c) => {
  await c.set('a', '1', 0);
  assert.deepStrictEqual(await c.flush(), [true]);
  assert.strictEqual(await c.get('a'), undefined);
});

check('the server is asked about itself', async (c) => {
  const [version] = await c.version();
  assert.ok(version.version.length > 0);
  const [stats] = await c.stats();
  assert.ok(stats.pid > 0 && stats.limit_maxbytes > 0);
  const [settings] = await c.settings();
  assert.ok(settings.maxconns > 0);
  await c.set('a', '1', 0);
  const [slabs] = await c.slabs();
  assert.ok(slabs.active_slabs !== undefined);
  const [items] = await c.items();
  assert.ok(items);
});

check('an error leaves the connection usable', async () => {
  const c = client({ poolSize: 1 });
  await c.set('w', 'words', 0);
  const [error, value] = await Promise.allSettled([c.incr('w', 1), c.get('w')]);
  assert.match(String(error.reason), /non-numeric/);
  assert.strictEqual(value.value, 'words');
  c.inner.end();
});

check('one connection answers a deep queue in order', async () => {
  const c = client({ poolSize: 1 });
  await c.set('n', 0, 0);
  const counts = await Promise.all(Array.from({ length: 1000 }, () => c.incr('n', 1)));
  assert.deepStrictEqual(counts, Array.from({ length: 1000 }, (_, i) => i + 1));
  c.inner.end();
});

(async () => {
  let failed = 0;
  for (const { name, run } of checks) {
    const c = client();
    try {
      await c.flush();
      await run(c);
    } catch (error) {
      failed += 1;
      console.error(`FAILED ${name}:`, error);
    }
    c.inner.end();
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
