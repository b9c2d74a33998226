"""The C ABI through ctypes, its structures read from silt.h: what the module is compared with."""

import ctypes
import re

import numpy

TYPES = {
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "void*": ctypes.c_void_p,
    "const char*": ctypes.c_char_p,
}
CODES = {"bfloat16": 1, "float32": 2, "int32": 3}


class Library:
    def __init__(self, path, header):
        self.silt = ctypes.CDLL(str(path))
        self.silt.silt_last_error.restype = ctypes.c_char_p
        self.types = dict(TYPES)
        # The static inline defaults are no symbols of the library: their assignments are read as well.
        text = header.read_text()
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S):
            self.types[name] = type(name, (ctypes.Structure,), {"_fields_": list(self.fields(body))})
        self.defaults = {
            op: [(field, float(value.rstrip("F"))) for field, value in re.findall(r"args\.(\w+) = ([-\d.eF]+);", body)]
            for op, body in re.findall(r"silt_(\w+)_defaults\(void\) \{(.*?)\n\}", text, re.S)
        }

    def fields(self, body):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        for kind, name, count in re.findall(r"([\w ]+?\*?) (\w+)(?:\[(\d+)\])?;", body):
            kind = self.types[kind.strip()]
            yield name, kind * int(count) if count else kind

    def tensor(self, array):
        size = array.dtype.itemsize
        made = self.types["silt_tensor"](data=array.__array_interface__["data"][0], dtype=CODES[array.dtype.name])
        made.rank = array.ndim
        made.shape[: array.ndim] = array.shape
        made.stride[: array.ndim] = [step // size for step in array.strides]
        return made

    def __call__(self, op, **arguments):
        """Status and, unless it is 0, the text."""
        kind = self.types[f"silt_{op}_args"]
        args = kind(struct_size=ctypes.sizeof(kind))
        kinds = dict(kind._fields_)
        for name, value in [*self.defaults[op], *arguments.items()]:
            if isinstance(value, numpy.ndarray):
                value = self.tensor(value)
            elif kinds[name] is not ctypes.c_float:
                value = int(value)
            setattr(args, name, value)
        status = getattr(self.silt, f"silt_{op}")(ctypes.byref(args), None)
        return status, self.silt.silt_last_error().decode() if status else ""
