// Until November 2026 this page held all that it lists. Whoever comes by an address of that time is
// led on to where the name stands now; a part of a class stands with its class.
const asked = decodeURIComponent(location.hash.slice(1));
for (let name = asked; name; name = name.includes(".") ? name.replace(/\.[^.]*$/, "") : "") {
  const link = document.getElementById(name)?.querySelector("a");
  if (!link) continue;
  location.replace(`${link.href.split("#")[0]}#${asked}`);
  break;
}
