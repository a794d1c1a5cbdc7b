// fs.readSync and fs.writeSync in small pieces, and the asynchronous calls beside them.
const fs = require('fs');
const said = [];
const input = fs.openSync('in.txt', 'r');
const output = fs.openSync('node.out', 'w+');
const buffer = Buffer.alloc(31);
let n;
while ((n = fs.readSync(input, buffer, 0, 31, null)) > 0) fs.writeSync(output, buffer, 0, n);
said.push(fs.fstatSync(output).size, fs.statSync('node.out').size);
for (let i = 0; i < 1500; i++) {
  const at = (i * 7919) % 40000;
  fs.readSync(output, buffer, 0, 10, at);
  if (i % 5 === 0) fs.writeSync(output, `<${i}>`, at);
}
fs.ftruncateSync(output, 33333);
fs.writevSync(output, [Buffer.from('one'), Buffer.from('two')]);
said.push(fs.readFileSync('node.out').length);
fs.closeSync(output);
for (let i = 0; i < 500; i++) fs.appendFileSync('log.txt', `line ${i}\n`);
fs.renameSync('log.txt', 'log.old');
said.push(fs.readFileSync('log.old', 'utf8').split('\n').length);
const child = require('child_process').spawnSync('wc', ['-c', 'node.out'], {encoding: 'utf8'});
said.push(child.stdout.trim(), child.status);
try { fs.readSync(output, buffer, 0, 1, null); } catch (error) { said.push(error.code); }
try { fs.writeSync(input, 'x'); } catch (error) { said.push(error.code); }
fs.createReadStream('in.txt', {highWaterMark: 100}).pipe(fs.createWriteStream('stream.out')).on('finish', async () => {
  said.push(fs.statSync('stream.out').size);
  const file = await fs.promises.open('promise.out', 'w');
  for (let i = 0; i < 300; i++) await file.write(`promise ${i}\n`);
  said.push((await file.stat()).size);
  await file.close();
  console.log(JSON.stringify(said));
  process.exit(8);
});
