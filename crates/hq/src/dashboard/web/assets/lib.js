// Elements from templates: what is put into one is text, never markup.

import { h, render, Component, Fragment } from "/vendor/preact.mjs";
import htm from "/vendor/htm.module.js";

export const html = htm.bind(h);
export { render, Component, Fragment };
