// Offers to hand in the code behind the # of the address, which no server and no log gets to see. It takes a click: a page of a stranger could lead here
// with a code of its own.
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
