"""Opens a PAM session whose only module is pam_env and prints its environment as JSON. Argument: the file that pam_env reads."""
import ctypes, json, os, sys, tempfile

pam = ctypes.CDLL("libpam.so.0")
pam.pam_getenvlist.restype = ctypes.POINTER(ctypes.c_char_p)
Talk = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Conversation(ctypes.Structure):
    _fields_ = [("talk", Talk), ("data", ctypes.c_void_p)]


silent = Conversation(Talk(lambda *_: 0), None)
session = ctypes.c_void_p()
with tempfile.TemporaryDirectory() as services:
    with open(os.path.join(services, "writ-test"), "w") as f:
        f.write("session required pam_env.so conffile=/dev/null readenv=1 envfile=%s\n" % sys.argv[1])
    code = pam.pam_start_confdir(b"writ-test", b"root", ctypes.byref(silent), services.encode(), ctypes.byref(session))
    code = code or pam.pam_open_session(session, 0)
    if code:
        sys.exit("PAM answers %d" % code)
    listed, environment, i = pam.pam_getenvlist(session), {}, 0
    while listed[i]:
        name, _, value = listed[i].decode().partition("=")
        environment[name] = value
        i += 1
json.dump(environment, sys.stdout)
