// Under `host dev`: shows the error of a build that failed, and loads the page again when another handler serves.
"use strict";
{
  const banner = document.createElement("pre");
  banner.id = "build-error";
  banner.hidden = true;
  Object.assign(banner.style, {
    background: "#fff1f0", border: "2px solid #d4380d", margin: "1em", overflow: "auto", padding: "1em",
  });
  document.body.prepend(banner);

  let builds;
  const look = async () => {
    try {
      const state = await (await fetch("dev.json", { cache: "no-store" })).json();
      if (builds !== undefined && builds !== state.builds) {
        location.reload();
        return;
      }
      builds = state.builds;
      banner.hidden = !state.error;
      banner.textContent = state.error ?? "";
    } catch {
      // The server is away; the next look may find it.
    }
    setTimeout(look, 500);
  };
  look();
}
