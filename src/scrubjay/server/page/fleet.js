// The fleet at a glance: every pod with its state and its screen as text, kept up to date by the fleet's changes.
"use strict";

const REFRESH_MS = 1000; // of screens; a change of the fleet is shown at once
const pods = document.getElementById("pods");
const about = document.getElementById("about");
const cards = new Map();

function card(pod) {
  let shown = cards.get(pod.id);
  if (!shown) {
    const article = document.createElement("article");
    const header = document.createElement("header");
    const [name, state, screen] = ["h2", "p", "pre"].map((tag) => document.createElement(tag));
    header.append(name, state);
    article.append(header, screen);
    pods.append(article);
    shown = { article, name, state, screen };
    cards.set(pod.id, shown);
  }
  shown.name.textContent = pod.name;
  shown.state.textContent = [pod.status.description, pod.branch, pod.argv.join(" ")].filter(Boolean).join(" · ");
  return shown;
}

async function showPods() {
  const response = await fetch("/api/v1/pods");
  if (response.status === 401) {
    about.textContent = "You are not logged in: run “scrubjay login” and follow the link it prints.";
    return;
  }
  const found = await response.json();
  const known = new Set(found.map((pod) => pod.id));
  for (const [id, shown] of cards) {
    if (!known.has(id)) {
      shown.article.remove();
      cards.delete(id);
    }
  }
  about.textContent = `${found.length} pods`;
  await Promise.all(found.map(showScreen));
}

async function showScreen(pod) {
  const shown = card(pod);
  const version = `${pod.tape_bytes} ${pod.status.process}`;
  if (shown.version === version) return;
  const response = await fetch(`/api/v1/pods/${pod.id}/screen?format=text`);
  if (response.ok) {
    shown.screen.textContent = await response.text();
    shown.version = version;
  }
}

function follow(after) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/api/v1/fleet${after === null ? "" : `?after=${after}`}`);
  let last = after;
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    last = message.number;
    if (message.type === "change") void showPods();
  };
  socket.onclose = () => setTimeout(() => follow(last), 1000 + Math.random() * 2000);
}

async function begin() {
  await showPods();
  if (about.textContent.startsWith("You are")) return;
  follow(null);
  setInterval(() => { if (!document.hidden) void showPods(); }, REFRESH_MS);
}

void begin();
