# The API of Dalli, Ruby's client (version 3.0 speaks the binary protocol only), against the server at host:port; with
# `sasl` before it as a user of that server.

require 'dalli'

SERVER = ARGV.last
USER = ARGV.include?('sasl') ? { username: 'me', password: 'secret' } : {}
CHECKS = []

def check(name, &run)
  CHECKS << [name, run]
end

def client(options = {})
  Dalli::Client.new(SERVER, { socket_timeout: 60, socket_max_failures: 0 }.merge(USER, options))
end

def expect(found, wanted)
  raise "found #{found.inspect[0, 60]}, expected #{wanted.inspect[0, 60]}" unless found == wanted
end

# A store answers with a CAS unique, or with 0, false or nil.
def done?(answer)
  answer && answer != 0 ? true : false
end

check('values come back as they went') do |c|
  ['', 'x', "\r\n", "\0", 'v' * 500_000, [1, { 'a' => 2.5 }], nil].each do |value|
    expect(done?(c.set('a', value)), true)
    expect(c.get('a'), value)
  end
  expect(c.get('missing'), nil)
end

check('compressed values come back') do |_|
  c = client(compress: true)
  c.set('a', 'v' * 100_000)
  expect(c.get('a'), 'v' * 100_000)
end

check('add and replace mind what is there') do |c|
  expect(done?(c.replace('a', 1)), false)
  expect(done?(c.add('a', 1)), true)
  expect(done?(c.add('a', 2)), false)
  expect(done?(c.replace('a', 3)), true)
  expect(c.get('a'), 3)
end

check('append and prepend lengthen') do |c|
  expect(done?(c.append('a', 'x')), false)
  c.set('a', 'm', nil, raw: true)
  c.append('a', 'z')
  c.prepend('a', 'a')
  expect(c.get('a', raw: true), 'amz')
end

check('numbers count') do |c|
  expect(c.incr('n', 5), nil)
  expect(c.incr('n', 5, nil, 10), 10)
  expect(c.incr('n', 5), 15)
  expect(c.decr('n', 100), 0)
end

check('delete and touch say whether it was there') do |c|
  expect(done?(c.delete('a')), false)
  expect(done?(c.touch('a', 100)), false)
  c.set('a', 1)
  expect(done?(c.touch('a', 100)), true)
  expect(c.gat('a', 100), 1)
  expect(done?(c.delete('a')), true)
end

check('a change goes through only if nobody else has changed it') do |c|
  c.set('a', 1)
  expect(done?(c.cas('a') { |value| value + 1 }), true)
  expect(c.get('a'), 2)
  expect(done?(c.cas('a') { |_| client.set('a', 9) && 5 }), false)
  expect(c.get('a'), 9)
  value, cas = c.get_cas('a')
  expect(done?(c.replace_cas('a', value + 1, cas)), true)
  expect(done?(c.delete_cas('a', cas)), false)
end

check('many at once') do |c|
  keys = (0...1000).map { |number| "key#{number}" }
  c.multi { keys.each { |key| c.set(key, key) } }
  expect(c.get_multi(keys + ['missing']), keys.to_h { |key| [key, key] })
end

check('what is too large is an error') do |_|
  c = client(value_max_bytes: 5_000_000, compress: false)
  answer = begin
    c.set('large', 'v' * 2_000_000, nil, raw: true)
  rescue Dalli::DalliError
    nil
  end
  expect(done?(answer), false)
  expect(c.get('large', raw: true), nil)
end

check('fetch stores what is missing') do |c|
  expect(c.fetch('a') { 'computed' }, 'computed')
  expect(c.fetch('a') { 'never' }, 'computed')
end

check('statistics, version, flush') do |c|
  stats = c.stats[SERVER]
  expect(stats['threads'].to_i > 0, true)
  expect(c.stats(:items)[SERVER].nil?, false)
  expect(c.version[SERVER].start_with?('1.6.'), true)
  c.set('a', 1)
  c.flush
  expect(c.get('a'), nil)
  raise 'not alive' unless c.alive!
end

failed = 0
CHECKS.each do |name, run|
  connection = client
  begin
    connection.flush
    run.call(connection)
  rescue StandardError => error
    failed += 1
    puts "#{name}: #{error.class}: #{error.message[0, 200]}"
  ensure
    connection.close
  end
end
puts "#{CHECKS.size - failed} passed, #{failed} failed"
exit(failed.zero? ? 0 : 1)
