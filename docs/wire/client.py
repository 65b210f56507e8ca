#!/usr/bin/env python3
"""Runs a script in a datacenter and verifies its result, without writ. It needs Python 3.8, ssh-keygen and openssl.

    client.py CONTEXT DATACENTER SIGNER KEYFILE SCRIPT

CONTEXT is the output of `writ context export`. It names the roster to trust. The script must have no parameters and no secrets.
docs/wire.md describes each step.
"""
import base64, hashlib, json, os, re, subprocess, sys, tempfile, time, urllib.error, urllib.request

if len(sys.argv) != 6:
    sys.exit(__doc__)
context, datacenter, signer, key, script = sys.argv[1:]
with open(context) as f:
    context = f.read()
if "anchor: " not in context:
    sys.exit("%s has no anchor: write it with `writ context export`" % sys.argv[1])
version, digest = re.search(r"anchor: (\d+)\.([0-9a-f]{64})", context).groups()
cluster = re.search(r"cluster: ([0-9a-f]{64})", context)[1]
project = re.search(r"project: (\S+)", context)[1]
url = re.search(r"- (https?://\S+)", context)[1]
scratch = tempfile.TemporaryDirectory()  # holds the session key, so it is deleted at exit
work = scratch.name


def http(method, path, body=None, token=None):
    request = urllib.request.Request(url + path, data=body, method=method)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    if method == "POST" and body[:1] == b"{":
        request.add_header("Content-Type", "application/json")
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as refused:
        problem = json.load(refused)
        sys.exit("%s %s: %s: %s; %s" % (method, path, problem["code"], problem["detail"], problem.get("hint", "`writ explain` says more")))


def run(*command, text=b""):
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout


def sign(namespace, text):
    """Returns the text followed by its SSH signature."""
    return text + run("ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key, text=text)


def cbor(b, at=0):
    """Decodes one value of deterministic CBOR (RFC 8949, 4.2). Returns the value and the offset after it."""
    kind, n, at = b[at] >> 5, b[at] & 31, at + 1
    if n > 23 and kind != 7:
        size = 1 << (n - 24)
        n, at = int.from_bytes(b[at:at + size], "big"), at + size
    if kind in (2, 3):
        text = b[at:at + n]
        return (text if kind == 2 else text.decode()), at + n
    if kind in (4, 5):
        items = []
        for _ in range(n << (kind - 4)):
            item, at = cbor(b, at)
            items.append(item)
        return (items if kind == 4 else dict(zip(items[::2], items[1::2]))), at
    return {0: n, 1: -1 - n}.get(kind, {20: False, 21: True}.get(n)), at


def opened(kind, signed, public):
    """Verifies an envelope with an Ed25519 key and returns its record."""
    (key_id, signature, frame, _), _ = cbor(base64.b64decode(signed))
    assert key_id == hashlib.sha256(public).digest(), "the envelope is signed by another key"
    spki = bytes.fromhex("302a300506032b6570032100") + public
    for name, content in (("key", spki), ("signature", signature), ("text", b"writ-%s-v1\0" % kind.encode() + frame)):
        with open(os.path.join(work, name), "wb") as f:
            f.write(content)
    run("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", work + "/key", "-rawin", "-in", work + "/text", "-sigfile", work + "/signature")
    return cbor(frame)[0][0]


def lines(**fields):
    return "".join("%s: %s\n" % (name.replace("_", "-"), value) for name, value in fields.items()).encode()


def now(ahead=0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ahead))


# The roster of the anchor has the ids and keys of the datacenter and the coordinator.
roster = base64.b64decode(http("GET", "/v1/roster")["signed"][-1]).split(b"-----BEGIN SSH SIGNATURE-----")[0]
assert hashlib.sha256(roster).hexdigest() == digest, "the roster is not the one of the anchor"


def row(kind, name):
    """Returns the id of an entry of the roster, and its key or None."""
    found = re.search(r"^%s: (\S+) %s(?: .*?(?:ssh-ed25519 (\S+)).*)?" % (kind, re.escape(name)), roster.decode(), re.M)
    return found[1], base64.b64decode(found[2])[19:] if found[2] else None


datacenter_id, supervisor = row("datacenter", datacenter)
project_id, _ = row("project", project)
coordinator_id, coordinator = re.search(r"^coordinator: (\S+) \S+ ssh-ed25519 (\S+)", roster.decode(), re.M).groups()

# Log in, because reading requires a token.
nonce = os.urandom(32)
challenge = http("POST", "/v1/logins/challenges", json.dumps({"nonce": base64.b64encode(nonce).decode(), "url": url}).encode())
challenge = opened("login-challenge", challenge["signed"], base64.b64decode(coordinator)[19:])
assert challenge["client"] == nonce and challenge["url"] == url, "the challenge is for another client"
run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", work + "/session")
with open(work + "/session.pub") as f:
    session = " ".join(f.read().split()[:2])
login = lines(writ_login="v1", cluster=cluster, coordinator=coordinator_id, url=url, roster=version + " " + digest, signer=signer, session=session,
              nonce=challenge["nonce"].hex(), created=now(), expires=now(60), until=now(3600))
token = http("POST", "/v1/logins", sign("writ-login-v1", login))["token"]

# Sign the script and submit it.
with open(script, "rb") as f:
    text = f.read()
name = os.path.basename(script)
allowed = " ".join(sorted(set(re.findall(r"\b((?:node|herodb|volume|network|machine|container|image)\.[a-z_]+)\(", text.decode()))))
payload = lines(writ_script="v2", cluster=cluster, datacenter=datacenter_id, roster=version + " " + digest, project=project_id + " " + project,
                deployment="-", signer=signer, created=now(), expires=now(900), deadline="1h", nonce=os.urandom(16).hex(), engine="tengo/2.17.0 api/1",
                allow=allowed or "-", destructive="-", max_calls=100, params="{}", plan="-", script="%s %d %s" % (name, len(text), hashlib.sha256(text).hexdigest()))
payload += b"\n" + text
submitted = http("POST", "/v1/submissions", sign("writ-script-v1", payload))

# Wait for the end of the run, and verify the summary that the datacenter signed.
run_id = submitted["run"]
while True:
    seen = http("GET", "/v1/runs/" + run_id, token=token)
    if "summary" in seen:
        break
    if seen["state"] in ("refused", "expired"):  # the run never began, so it has no summary
        sys.exit("run %s is %s according to the coordinator: %s" % (run_id, seen["state"], json.dumps(seen.get("failure"))))
    time.sleep(0.2)
summary = seen["summary"]
ended = opened("summary", summary, supervisor)
assert ended["payload"] == hashlib.sha256(payload).hexdigest(), "the summary is for another submission"
nonce = os.urandom(32)
standing = opened("run-standing", http("GET", "/v1/runs/%s/standing?nonce=%s" % (run_id, nonce.hex()), token=token)["proof"], supervisor)
assert standing["nonce"] == nonce and standing["summary"] == hashlib.sha256(base64.b64decode(summary)).hexdigest(), "the run was resumed since"
print(json.dumps({"run": run_id, "state": ended["state"], "output": ended.get("output")}))
