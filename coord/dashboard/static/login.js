// Offers to submit the code after the # of the address. Browsers send that part to no server, so no log has it. The
// reader must click: a stranger could link to this page with another code, to log the reader in as the stranger.
"use strict";
(() => {
  const form = document.getElementById("code");
  const code = location.hash.slice(1);
  if (!form || !code) return;
  history.replaceState(null, "", location.pathname);
  form.elements.code.value = code;
  document.getElementById("no-code").hidden = true;
  form.hidden = false;
  form.querySelector("button").focus();
})();
