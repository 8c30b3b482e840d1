"""The nginx of docs/deploy.md passes on what a desk needs: a real one, in front of a real desk."""

import os
import shutil
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pages import ROOT, block
from processes import FRONTDESK, free_port, serving
from sockets import Socket, events_in, open_socket
from transports import kinds

NAME = "desk.example"
PLACES = os.pathsep.join([os.environ["PATH"], "/usr/sbin", f"{ROOT}/.venv/nginx/usr/sbin"])
SLOW = """
import asyncio
from pathlib import Path

from providers.base import DoneEvent, TextChunkEvent, TokenUsage, ToolCallEvent


class Slow:
    has_called = False

    async def complete(self, messages, tools):
        if not self.has_called:
            yield ToolCallEvent(id="c", name="search_managers", args={"query": "parts"})
        while self.has_called and not Path("gate").exists():
            await asyncio.sleep(0.01)
        if self.has_called:
            yield TextChunkEvent(content="Here they are.")
        yield DoneEvent(usage=TokenUsage())
        self.has_called = True
"""
CONFIGURATION = """
daemon off;
pid nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path bodies;
    proxy_temp_path answers;
    fastcgi_temp_path fastcgi;
    scgi_temp_path scgi;
    uwsgi_temp_path uwsgi;
    MAP
    server {
        listen 127.0.0.1:PLAIN;
        listen 127.0.0.1:SECURE ssl;
        ssl_certificate certificate.pem;
        ssl_certificate_key key.pem;
        LOCATION
    }
}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A desk that is named desk.example, behind an nginx with two addresses."""

    folder: Path
    http: str
    https: str

    def open_gate(self) -> None:
        """Let the turns of the desk's provider go on to their ends."""
        (self.folder / "gate").touch()

    def client(self, url: str) -> httpx.Client:
        """A client that asks for the desk by its name."""
        trust = ssl.create_default_context(cafile=self.folder / "certificate.pem")
        return httpx.Client(
            base_url=url, headers={"Host": NAME}, verify=trust, timeout=20, trust_env=False
        )


def certify(folder: Path) -> None:
    """Write a certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))


@pytest.fixture
def proxy(tmp_path: Path) -> Generator[Proxy]:
    """A desk that is reached over nginx alone, since it knows no name but its own."""
    nginx = shutil.which("nginx", path=PLACES)
    assert nginx, "nginx is not installed: run make test, or apt-get install nginx."
    certify(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    port = free_port()
    settings = {"allowed_hosts": NAME, "provider": "slow.Slow"}
    with serving(tmp_path, FRONTDESK, "demo", "toy", **settings) as desk:
        location = block("docs/deploy.md", "nginx", "location /")
        assert "proxy_pass http://127.0.0.1:8000;" in location
        text = (
            CONFIGURATION.replace("MAP", block("docs/deploy.md", "nginx", "map $http_upgrade"))
            .replace("LOCATION", location.replace("http://127.0.0.1:8000", desk))
            .replace("SECURE", str(port))
        )
        (tmp_path / "nginx.conf").write_text(text)
        start = 'sed -i "s/PLAIN/$2/" nginx.conf; exec "$0" -p "$PWD/" -c nginx.conf -e stderr'
        with serving(tmp_path, "sh", "-ec", start, nginx) as url:
            yield Proxy(tmp_path, url, f"https://localhost:{port}")


def test_an_answer_is_passed_on_while_it_comes_about(proxy: Proxy) -> None:
    shown: list[str] = []
    with (
        proxy.client(proxy.http) as client,
        client.stream("POST", "/chat/stream/", json={"text": "Which parts?"}) as answer,
    ):
        for line in answer.iter_lines():
            shown.append(line)
            if '"type":"tool_result"' in line:
                proxy.open_gate()
    assert '"type":"done"' in "".join(shown)
    assert "Here they are." in "".join(shown)


async def test_a_socket_is_passed_on(proxy: Proxy) -> None:
    page: Socket = await open_socket(proxy.http, httpx.Cookies(), host=NAME)
    await page.ask("Which parts?")
    frames = [await page.receive(), await page.receive()]
    proxy.open_gate()
    frames += await page.receive_turn()
    await page.close()
    assert kinds(events_in(frames)) == ["tool_call", "tool_result", "text_chunk", "done"]


def test_the_name_and_the_scheme_are_passed_on(proxy: Proxy) -> None:
    for url, is_secure in ((proxy.http, False), (proxy.https, True)):
        with proxy.client(url) as client:
            known = client.get("/chat/session/")
            unknown = client.get("/chat/session/", headers={"Host": "other.example"})
        assert (known.status_code, unknown.status_code) == (200, 403)
        cookies = known.headers.get_list("Set-Cookie")
        assert len(cookies) == 2
        assert [("; secure" in cookie.lower()) for cookie in cookies] == [is_secure] * 2
