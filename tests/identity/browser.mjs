// A real browser in which a user logs in: clients open it for a login.
//
//     browser.mjs URL [CODE]
//
// Fills in and submits the forms on the identity provider's pages, until the browser is redirected to the client or,
// with a code for a device, until the device is logged in. Exits with 1 if that does not happen. The packages are those in
// the folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")));

const [start, code] = process.argv.slice(2);
const back = new URL(start).searchParams.get("redirect_uri");
// Root may not use the browser's own sandbox.
const browser = await puppeteer.launch({ executablePath: process.env.MCPM_TEST_BROWSER, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  await page.goto(start);
  const isOver = async () => (code ? /success/i.test(await page.evaluate(() => document.body.innerText)) : page.url().startsWith(back));
  while (!(await isOver())) {
    const device = code && (await page.$("input[name=user_code][type=text], input[name=device_user_code]"));
    if (device) await device.type(code);
    const login = await page.$("input[name=login], input[name=username]");
    if (login) {
      await login.type("ann");
      await page.type("input[name=password]", "ann-password");
    }
    await Promise.all([page.waitForNavigation(), page.click("[type=submit]")]);
  }
} catch (error) {
  console.error(String(error?.stack ?? error));
  process.exitCode = 1;
} finally {
  await browser.close();
}
