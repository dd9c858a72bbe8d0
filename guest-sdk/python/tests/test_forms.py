"""Forms: fields and files as browsers, curl and other clients send them; what is malformed, and limits."""

import asyncio
import unittest

from modelhost_guest import App, InvalidInput, Sample, cortex, forms, truss
from modelhost_guest.forms import UploadFile
from modelhost_guest.messages import Body
from modelhost_guest.web import Request

TYPE = "multipart/form-data; boundary=b"


def part(disposition, data=b"x", *headers):
    lines = [f"Content-Disposition: {disposition}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def body(*parts, boundary=b"b"):
    return b"".join(b"--" + boundary + b"\r\n" + it + b"\r\n" for it in parts) + b"--" + boundary + b"--\r\n"


def form(body, content_type=TYPE):
    return Body(body, content_type).form


def shown(value):
    return (value.filename, value.content_type, value.data) if isinstance(value, UploadFile) else value


class FormsTest(unittest.TestCase):
    def test_fields_and_files_are_what_was_sent(self):
        data = b"\x00\xff\r\n\r\n--\r\n--bb\r\n--b-\r\n--b x\r\n"
        made = form(
            body(
                part('form-data; name="text"', "grüß".encode()),
                part('form-data; name="file"; filename="a.bin"', data, "Content-Type: image/png"),
                part('form-data; name="text"', b""),
                part('form-data; name="none"; filename=""', b"", "Content-Type: application/octet-stream"),
            )
        )
        self.assertEqual(
            [(name, shown(value)) for name, value in made.multi_items()],
            [
                ("text", "grüß"),
                ("file", ("a.bin", "image/png", data)),
                ("text", ""),
                ("none", ("", "application/octet-stream", b"")),
            ],
        )
        self.assertEqual((made["text"], made.getlist("text"), made.getlist("x"), made["file"].size), ("", ["grüß", ""], [], len(data)))
        self.assertEqual(made["file"].headers["content-type"], "image/png")
        with self.assertRaisesRegex(InvalidInput, "missing field `x`"):
            made["x"]

    def test_bodies_of_browsers_curl_and_others(self):
        chrome = b"----WebKitFormBoundary7MA4YWxkTrZu0gW"
        curl = b"------------------------d74496d66958873e"
        for content_type, given, expected in [
            # A browser escapes quotes and line ends by percents and nothing else; a path's separators are not escapes.
            (
                f"multipart/form-data; boundary={chrome.decode()}",
                body(part('form-data; name="a%22b"; filename="grüße %22x%22 100%.txt"', b"1"), boundary=chrome),
                [('a"b', ('grüße "x" 100%.txt', "", b"1"))],
            ),
            (
                f"multipart/form-data; boundary={curl.decode()}",
                body(part('form-data; name="f"; filename="a\\"b\\\\c.txt"', b"1", "Content-Type: text/plain"), boundary=curl),
                [("f", ('a"b\\c.txt', "text/plain", b"1"))],
            ),
            (TYPE, body(part('form-data; name="f"; filename="C:\\dir\\a;b.txt"')), [("f", ("C:\\dir\\a;b.txt", "", b"x"))]),
            (TYPE, body(part("form-data; name=f; filename=a.txt")), [("f", ("a.txt", "", b"x"))]),
            (
                TYPE,
                body(part("form-data; name=\"f\"; filename=\"_\"; filename*=utf-8''na%C3%AFve%20%E2%82%AC.txt")),
                [("f", ("naïve €.txt", "", b"x"))],
            ),
            (TYPE, body(part("form-data; name*=UTF-8'en'gr%C3%BC%C3%9F")), [("grüß", "x")]),
            (TYPE, body(part("form-data; name=f; filename*=ISO-8859-1''%E9.txt")), [("f", ("é.txt", "", b"x"))]),
            # Names of headers and parameters in any case, quoted boundaries, lines that go on, a part without a body.
            (
                'Multipart/Form-Data; charset=utf-8; Boundary="a \'(=):?"; ',
                b"--a '(=):?\r\ncontent-disposition:form-data;\r\n NAME=\"n\"\r\n\r\n1\r\n--a '(=):?--",
                [("n", "1")],
            ),
            (TYPE, b'--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n--b--', [("n", "")]),
            # What is around the parts is not part of them; spaces may follow a boundary.
            (TYPE, b"preamble --b\r\n" + body(part("form-data; name=n")) + b"epilogue\r\n--b\r\n", [("n", "x")]),
            (TYPE, b"\r\n" + body(part("form-data; name=n")), [("n", "x")]),
            (TYPE, b"--b \t\r\n" + part("form-data; name=n") + b"\r\n--b-- \t", [("n", "x")]),
            (TYPE, b"--b--\r\n", []),
            (TYPE, body(part("form-data; name=n", b"\xe9", "Content-Type: text/plain; charset=ISO-8859-1")), [("n", "é")]),
            (TYPE, body(part("form-data; name=n", b'{"a":1}', "Content-Type: application/json")), [("n", '{"a":1}')]),
            (TYPE, body(part("form-data; name=n", b"x", "Content-Transfer-Encoding: 8bit")), [("n", "x")]),
            ("application/x-www-form-urlencoded; charset=UTF-8", b"a=1&b=%C3%A9+x&a=&c", [("a", "1"), ("b", "é x"), ("a", ""), ("c", "")]),
            (None, b"a=1", [("a", "1")]),
        ]:
            made = [(name, shown(value)) for name, value in form(given, content_type).multi_items()]
            self.assertEqual(made, expected, given)

    def test_what_is_malformed_is_the_callers_fault(self):
        whole = body(part("form-data; name=n"))
        for content_type, given, error in [
            ("multipart/form-data", whole, "the content type has no `boundary`"),
            ("multipart/form-data; boundary=", whole, "the content type has no `boundary`"),
            ('multipart/form-data; boundary="b', whole, "the parameters of content-type"),
            ("multipart/form-data; boundary=b; boundary=c", whole, "content-type has `boundary` twice"),
            (f"multipart/form-data; boundary={'b' * 71}", whole, "the boundary is not 1 to 70 visible characters"),
            ("multipart/form-data; boundary=é", whole, "the boundary is not 1 to 70 visible characters"),
            ("multipart/form-data; boundary=other", whole, "no line of the body is the boundary"),
            (TYPE, b"", "no line of the body is the boundary"),
            (TYPE, b"\xff{", "no line of the body is the boundary"),
            (TYPE, whole.replace(b"\r\n", b"\n"), "no line of the body is the boundary"),
            (TYPE, b"x--b\r\n", "no line of the body is the boundary"),
            (TYPE, whole[:-4], "the body ends in part 2"),
            (TYPE, whole[:-6], "the body ends in part 1"),
            (TYPE, b"--b\r\n--b--", "the headers of part 1 have no end"),
            (TYPE, body(b"x"), "the headers of part 1 have no end"),
            (TYPE, body(b"\r\nx"), "part 1 has no `content-disposition: form-data"),
            (TYPE, body(part("form-data")), "part 1 has no `content-disposition: form-data"),
            (TYPE, body(part("attachment; name=n")), "part 1 has no `content-disposition: form-data"),
            (TYPE, body(part("form-data; name=n; name=m")), "part 1 has `name` twice"),
            (TYPE, body(part('form-data; name="n')), "the parameters of part 1"),
            (TYPE, body(part("form-data; name=n", b"x", "Content-Disposition: form-data")), "`content-disposition` twice"),
            (TYPE, body(part("form-data; name=n", b"x", "colon")), "a line of the headers of part 1 is no header"),
            (TYPE, body(part("form-data; name=n; filename*=x")), "`filename\\*` of part 1 is not `UTF-8''…`"),
            (TYPE, body(part("form-data; name=n; filename*=koi8-r''x")), "`filename\\*` of part 1 is not `UTF-8''…`"),
            (TYPE, body(part("form-data; name=n; filename*=utf-8''%ff")), "`filename\\*` of part 1 is not UTF-8"),
            (TYPE, body(b"Content-Disposition: form-data; name=\xff\r\n\r\nx"), "headers of part 1 of the form are not UTF-8"),
            (TYPE, body(part("form-data; name=n", b"\xff")), "field `n` of the form is not UTF-8"),
            (TYPE, body(part("form-data; name=n", b"x", "Content-Type: text/plain; charset=utf-7")), "field `n` .* is in `utf-7`"),
            (TYPE, body(part("form-data; name=n", b"eA==", "Content-Transfer-Encoding: base64")), "part 1 .* is in `base64`"),
            ("application/x-www-form-urlencoded", b"\xff", "the body is not UTF-8"),
        ]:
            with self.assertRaisesRegex(InvalidInput, error) as caught:
                form(given, content_type)
            self.assertEqual(caught.exception.status, 400)

    def test_parts_and_their_headers_are_bounded(self):
        most = [part("form-data; name=n")] * forms.MOST_PARTS
        self.assertEqual(len(form(body(*most)).multi_items()), 1000)
        with self.assertRaisesRegex(InvalidInput, "more than 1000 parts"):
            form(body(*most, most[0]))
        fixed = len("Content-Disposition: form-data; name=n\r\nX: ")
        longest = "X: " + "y" * (8192 - fixed)
        self.assertEqual(form(body(part("form-data; name=n", b"x", longest)))["n"], "x")
        for given in (body(part("form-data; name=n", b"x", longest + "y")), b"--b\r\n" + b"y" * 9000 + b"\r\n--b--"):
            with self.assertRaisesRegex(InvalidInput, "part 1 of the form has more than 8192 bytes of headers"):
                form(given)

    def test_another_type_is_a_415(self):
        app = App()

        @app.handler("/form")
        def fields(request):
            return dict(request.form)

        for content_type in ("application/json", "text/plain; charset=utf-8", "multipart/mixed; boundary=b"):
            answer = app.answer(path="/form", body=b"{}", content_type=content_type)
            self.assertEqual((answer.status, answer.json["code"]), (415, "unsupported_media_type"), content_type)
            self.assertIn(f"`{content_type.split(';')[0]}`", answer.json["error"])
        self.assertEqual(app.answer(path="/form", body=b"a=1", content_type="application/x-www-form-urlencoded").json, {"a": "1"})
        self.assertEqual(app.answer(path="/form", body=body(part("form-data; name=a")), content_type=TYPE).json, {"a": "x"})
        self.assertEqual(app.answer(path="/form", body=b"{", content_type=TYPE).status, 400)

        @app.batch("/batch")
        def together(requests):
            return [dict(it.form) for it in requests]

        mixed = [Sample(b"{}", "application/json"), Sample(b"a=1", "application/x-www-form-urlencoded")]
        answers = app.answer_all(mixed, path="/batch")
        self.assertEqual([it.status for it in answers], [415, 200])

    def test_models_of_others_get_forms_by_their_names(self):
        class Model:
            async def predict(self, request: Request):
                made = await request.form()
                return [made["a"], (await made["f"].read()).decode(), made["f"].filename]

        truss(Model, __name__)
        Model.app.start()
        given = body(part("form-data; name=a"), part("form-data; name=f; filename=g", b"data"))
        self.assertEqual(Model.app.answer(body=given, content_type=TYPE).json, ["x", "data", "g"])
        self.assertEqual(Model.app.answer(json={}).status, 415)

        class Predictor:
            def predict(self, payload):
                return payload["f"].text

        app = cortex.predictor(Predictor, __name__)
        app.start()
        self.assertEqual(app.answer(body=given, content_type=TYPE).text, "data")

    def test_a_file_is_read_as_files_are(self):
        file = UploadFile(b"abc", "n", "text/plain")
        self.assertEqual((file.file.read(1), asyncio.run(file.read()), file.text, file.size), (b"a", b"bc", "abc", 3))
        asyncio.run(file.seek(1))
        self.assertEqual(asyncio.run(file.read(1)), b"b")
        with self.assertRaisesRegex(InvalidInput, "file `n` is not UTF-8"):
            UploadFile(b"\xff", "n").text


if __name__ == "__main__":
    unittest.main()
