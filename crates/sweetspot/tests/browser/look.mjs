// Opens a page in a browser that can reach nothing, and says what is to be seen, as JSON:
//     node look.mjs BROWSER PAGE WIDTH light|dark [PICTURE.png]
// The protocol goes over two pipes, so no port is opened.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [browser, page, width, scheme, picture] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), 'look-'));
const chromium = spawn(browser, [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--host-resolver-rules=MAP * ~NOTFOUND', '--hide-scrollbars', '--remote-debugging-pipe',
    `--user-data-dir=${home}`,
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let last = 0;
let rest = '';
const answers = new Map();
const requests = [];
const said = [];
let loaded;
const isLoaded = new Promise(resolve => { loaded = resolve; });

chromium.stdio[4].on('data', bytes => {
    rest += bytes;
    for (let end; (end = rest.indexOf('\0')) >= 0; rest = rest.slice(end + 1)) {
        const message = JSON.parse(rest.slice(0, end));
        if (message.id) {
            answers.get(message.id)(message.result ?? message);
        } else if (message.method === 'Network.requestWillBeSent') {
            requests.push(message.params.request.url);
        } else if (message.method === 'Log.entryAdded') {
            said.push(message.params.entry.text);
        } else if (message.method === 'Runtime.consoleAPICalled'
            || message.method === 'Runtime.exceptionThrown') {
            said.push(JSON.stringify(message.params));
        } else if (message.method === 'Page.loadEventFired') {
            loaded();
        }
    }
});
const isGone = new Promise(resolve => { chromium.on('exit', resolve); });
const call = (method, params = {}, sessionId = undefined) => new Promise(resolve => {
    answers.set(++last, resolve);
    chromium.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + '\0');
});

const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
const tell = (method, params) => call(method, params, sessionId);
for (const domain of ['Page', 'Network', 'Log', 'Runtime']) {
    await tell(`${domain}.enable`);
}
await tell('Emulation.setDeviceMetricsOverride',
    { width: +width, height: 900, deviceScaleFactor: 1, mobile: +width < 500 });
await tell('Emulation.setEmulatedMedia',
    { features: [{ name: 'prefers-color-scheme', value: scheme }] });
await tell('Page.navigate', { url: `file://${page}` });
await isLoaded;

// What an engineer would look at: is each chart there, is its text large enough and within it?
const look = () => {
    const style = element => getComputedStyle(element);
    const charts = [...document.querySelectorAll('svg')].map(svg => {
        const box = svg.getBoundingClientRect();
        const scale = box.width / svg.viewBox.baseVal.width;
        const marks = [...svg.querySelectorAll('path, rect, circle')];
        const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent);
        const outside = texts.filter(text => {
            const at = text.getBoundingClientRect();
            return at.left < box.left - 2 || at.right > box.right + 2 || at.bottom > box.bottom + 2;
        });
        const drawn = marks.filter(mark => {
            const { stroke, fill } = style(mark);
            return stroke !== 'none' || fill !== 'none';
        });
        return {
            title: svg.querySelector('title')?.textContent,
            description: svg.querySelector('desc')?.textContent,
            role: svg.getAttribute('role'),
            width: box.width,
            height: box.height,
            drawn: drawn.length,
            textPixels: Math.min(...texts.map(text => parseFloat(style(text).fontSize) * scale)),
            outside: outside.map(text => text.textContent),
            hasTable: svg.closest('figure')?.querySelector('details table') !== null,
            name: svg.getAttribute('aria-labelledby').split(' ')
                .map(id => document.getElementById(id)?.textContent ?? '').join(' '),
        };
    });
    const wide = document.documentElement;
    return {
        charts,
        background: style(document.body).backgroundColor,
        ink: style(document.body).color,
        isWiderThanScreen: wide.scrollWidth > wide.clientWidth,
        scripts: document.scripts.length,
        alerted: Boolean(window.alerted),
        text: document.body.innerText,
        tables: document.querySelectorAll('table').length,
    };
};
const { result } = await tell('Runtime.evaluate',
    { expression: `JSON.stringify((${look})())`, returnByValue: true });
if (picture) {
    const { cssContentSize } = await tell('Page.getLayoutMetrics');
    const clip = { x: 0, y: 0, width: +width, height: cssContentSize.height, scale: 1 };
    const shot = await tell('Page.captureScreenshot', { captureBeyondViewport: true, clip });
    writeFileSync(picture, Buffer.from(shot.data, 'base64'));
}
call('Browser.close');
await isGone;
rmSync(home, { recursive: true, force: true, maxRetries: 9, retryDelay: 100 });
console.log(JSON.stringify({ requests, said, ...JSON.parse(result.value) }));
