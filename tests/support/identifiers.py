"""Columns of each of HIPAA's eighteen kinds of identifiers, with headers of four languages and made-up values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from stdnum import iban, luhn
from stdnum.de import idnr
from stdnum.es import ccc, dni
from stdnum.fr import nir
from stdnum.iso7064 import mod_11_10

ROWS = 400
LANGUAGES = ("en", "de", "fr", "es")

HEADERS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "1 names": (
        ("first_name", "LastName", "patient name"), ("Vorname", "Nachname", "Name_des_Patienten"),
        ("prénom", "nom_de_famille", "Nom"), ("nombre", "apellidos", "primer_apellido"),
    ),
    "2 geography": (
        ("zip", "city", "street_address"), ("PLZ", "Wohnort", "Straße"),
        ("code_postal", "ville", "adresse"), ("código_postal", "municipio", "dirección"),
    ),
    "3 dates": (
        ("date_of_birth", "admissionDate", "discharge"), ("Geburtsdatum", "Aufnahmedatum", "Entlassung"),
        ("date_naissance", "date_sortie", "date_deces"), ("fecha_nacimiento", "fecha_ingreso", "fecha_alta"),
    ),
    "4 telephone": (
        ("phone", "mobile_number", "homePhone"), ("Telefon", "Handynummer", "Rufnummer"),
        ("téléphone", "portable", "tel_domicile"), ("teléfono", "movil", "tel"),
    ),
    "5 fax": (
        ("fax", "fax_number", "FaxNo"), ("Telefax", "Faxnummer", "Fax"), ("télécopie", "fax", "telecopieur"),
        ("fax", "numero_fax", "telefax"),
    ),
    "6 e-mail": (
        ("email", "e-mail", "EmailAddress"), ("E-Mail", "Mailadresse", "email_privat"),
        ("courriel", "adresse_mail", "email"), ("correo", "correo_electronico", "email"),
    ),
    "7 social security": (
        ("ssn", "social_security_number", "SSN4"), ("Sozialversicherungsnummer", "SVNR", "Steuer-ID"),
        ("numero_securite_sociale", "NIR", "num_secu_sociale"), ("DNI", "num_seguridad_social", "NIF"),
    ),
    "8 medical record": (
        ("mrn", "medical_record_number", "record_no"), ("Patientennummer", "Fallnummer", "Aktenzeichen"),
        ("numero_dossier", "IPP", "dossier_patient"), ("historia_clinica", "NHC", "num_expediente"),
    ),
    "9 health plan": (
        ("member_id", "beneficiary_number", "policy_number"),
        ("Versichertennummer", "KVNR", "Krankenversicherungsnummer"),
        ("numero_assure", "num_adherent", "mutuelle_no"), ("num_afiliado", "poliza", "tarjeta_sanitaria"),
    ),
    "10 account": (
        ("account_number", "iban", "credit_card"), ("Kontonummer", "IBAN", "Kreditkarte"),
        ("numero_compte", "RIB", "carte_bancaire"), ("num_cuenta", "cuenta_bancaria", "tarjeta_credito"),
    ),
    "11 licence": (
        ("license_number", "drivers_license", "certificate_no"),
        ("Führerscheinnummer", "Zertifikatsnummer", "Lizenznummer"),
        ("permis_conduire", "num_certificat", "permis"), ("licencia", "num_colegiado", "permiso_conducir"),
    ),
    "12 vehicle": (
        ("vin", "license_plate", "vehicle_id"), ("Kennzeichen", "Fahrgestellnummer", "KFZ_Kennzeichen"),
        ("immatriculation", "plaque", "num_chassis"), ("matrícula", "bastidor", "vehiculo"),
    ),
    "13 device": (
        ("device_id", "serial_number", "imei"), ("Gerätenummer", "Seriennummer", "Geraete_ID"),
        ("numero_serie", "appareil_id", "imei"), ("numero_de_serie", "dispositivo", "imei"),
    ),
    "14 web address": (
        ("url", "website", "homepage"), ("Webseite", "Homepage", "URL"), ("site_web", "url_profil", "page_url"),
        ("sitio_web", "pagina_web", "url"),
    ),
    "15 IP address": (
        ("ip", "ip_address", "clientIP"), ("IP-Adresse", "ip", "IPv4"), ("adresse_ip", "ip", "ip_client"),
        ("direccion_ip", "ip", "ip_cliente"),
    ),
    "16 biometric": (
        ("fingerprint", "biometric_id", "voiceprint"), ("Fingerabdruck", "biometrie", "Stimmabdruck"),
        ("empreinte_digitale", "biometrie", "empreinte_vocale"), ("huella_dactilar", "biometria", "huella"),
    ),
    "17 photograph": (
        ("photo", "photograph_file", "portrait"), ("Foto", "Lichtbild", "Passbild"),
        ("photo", "photographie", "portrait"), ("foto", "fotografía", "retrato"),
    ),
    "18 unique code": (
        ("subject_id", "uuid", "participantID"), ("Kennung", "ID", "Probanden_ID"),
        ("identifiant", "id_patient", "code_identifiant"), ("identificador", "id_paciente", "ID"),
    ),
}  # fmt: skip
QUASI = {"2 geography", "3 dates"}
"""Kinds that may be released masked: found where they are masked or dropped."""

FIRST = {
    "en": "James Mary Robert Linda Aisha Noah Emma Olivia", "de": "Jürgen Anna Käthe Lukas Mia Uwe Heike Jonas",
    "fr": "Amélie Jean Chloé Hugo Léa René Zoé Luc", "es": "María José Lucía Pablo Iñaki Carmen Álvaro Sofía",
}  # fmt: skip
LAST = {
    "en": "Smith Jones Taylor Brown O'Neil Walker", "de": "Müller Schmidt Fischer Weber Groß Köhler",
    "fr": "Dubois Lefèvre Moreau Girard D'Arcy Roux", "es": "García Muñoz Ibáñez Romero Peña Ruiz",
}  # fmt: skip
STREET = {"en": "{} Oak Street", "de": "Lindenstraße {}", "fr": "{} rue de la Paix", "es": "Calle Mayor {}"}
PHONE = {"en": "(212) 555-{:04d}", "de": "+49 30 {:07d}", "fr": "01 42 {:02d} {:02d} {:02d}", "es": "+34 6{:08d}"}


def _digits(rng: np.random.Generator, count: int) -> str:
    return "".join(map(str, rng.integers(0, 10, count)))


def _national(rng: np.random.Generator, language: str) -> str:
    if language == "en":
        return f"{rng.integers(100, 665)}-{rng.integers(10, 99)}-{rng.integers(1000, 9999)}"
    if language == "de":
        while True:
            number = str(rng.integers(1, 10)) + _digits(rng, 9)
            if idnr.is_valid(number + mod_11_10.calc_check_digit(number)):
                return number + mod_11_10.calc_check_digit(number)
    if language == "fr":
        number = f"{rng.integers(1, 3)}{rng.integers(20, 99):02d}{rng.integers(1, 13):02d}75{_digits(rng, 6)}"
        return number + nir.calc_check_digits(number)
    number = _digits(rng, 8)
    return number + dni.calc_check_digit(number)


def _account(rng: np.random.Generator, language: str) -> str:
    if language == "en":
        number = "4" + _digits(rng, 14)
        return number + luhn.calc_check_digit(number)
    country, length = {"de": ("DE", 18), "fr": ("FR", 23), "es": ("ES", 20)}[language]
    body = _digits(rng, length)
    if language == "es":
        body = body[:8] + ccc.calc_check_digits(body) + body[10:]
    return iban.format(country + iban.calc_check_digits(country + "00" + body) + body).replace(" ", "")


def _name(rng: np.random.Generator, language: str, header: str) -> str:
    first, last = FIRST[language].split(), LAST[language].split()
    one, two = first[rng.integers(len(first))], last[rng.integers(len(last))]
    middle = chr(65 + rng.integers(26)) + "."
    return f"{one} {middle} {two}-{last[rng.integers(len(last))]}"


def _place(rng: np.random.Generator, language: str, header: str) -> str:
    if any(part in header.lower() for part in ("zip", "plz", "postal")):
        return f"{rng.integers(100, 140)}{rng.integers(0, 3)}0"
    if any(part in header.lower() for part in ("city", "wohnort", "ville", "municipio")):
        return ("Alpha", "Beta", "Gamma", "Delta", "Epsilon")[rng.integers(5)]
    return STREET[language].format(rng.integers(1, 400))


def _date(rng: np.random.Generator, language: str, header: str) -> str:
    day, month, year = rng.integers(1, 29), rng.integers(1, 13), rng.integers(1930, 2020)
    return f"{day:02d}.{month:02d}.{year}" if language == "de" else f"{year}-{month:02d}-{day:02d}"


def _phone(rng: np.random.Generator, language: str, header: str) -> str:
    return PHONE[language].format(*rng.integers(0, 99, 3)) if language == "fr" else PHONE[language].format(
        rng.integers(0, 9999 if language == "en" else 9_999_999)
    )  # fmt: skip


def _code(rng: np.random.Generator, language: str, header: str) -> str:
    return f"{chr(65 + rng.integers(26))}{_digits(rng, 7)}"


def _vehicle(rng: np.random.Generator, language: str, header: str) -> str:
    letters = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"
    if header.lower() in ("vin", "fahrgestellnummer", "num_chassis", "bastidor"):
        return "W" + "".join(letters[at] for at in rng.integers(0, len(letters), 15)) + str(rng.integers(10))
    return f"B-{chr(65 + rng.integers(26))}{chr(65 + rng.integers(26))} {rng.integers(100, 9999)}"


VALUES: dict[str, Callable[[np.random.Generator, str, str], str]] = {
    "1 names": _name,
    "2 geography": _place,
    "3 dates": _date,
    "4 telephone": _phone,
    "5 fax": _phone,
    "6 e-mail": lambda rng, language, header: f"user{_digits(rng, 6)}@example.org",
    "7 social security": lambda rng, language, header: _national(rng, language),
    "10 account": lambda rng, language, header: _account(rng, language),
    "12 vehicle": _vehicle,
    "14 web address": lambda rng, language, header: f"https://example.org/people/{_digits(rng, 6)}",
    "15 IP address": lambda rng, language, header: ".".join(map(str, rng.integers(1, 255, 4))),
    "16 biometric": lambda rng, language, header: "".join("0123456789abcdef"[at] for at in rng.integers(0, 16, 24)),
    "17 photograph": lambda rng, language, header: f"scan_{_digits(rng, 6)}.jpg",
}
SHOWN = (
    "4 telephone",
    "6 e-mail",
    "7 social security",
    "10 account",
    "14 web address",
    "15 IP address",
    "17 photograph",
)
"""Kinds that their values show, whatever the header is."""


def values(kind: str, language: str, header: str, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    make = VALUES.get(kind, _code)
    return pa.array([make(rng, language, header) for _ in range(ROWS)])


def columns() -> Iterator[tuple[str, str, str, Any]]:
    """Kind, language, header and values of every column."""
    seed = 0
    for kind, headers in HEADERS.items():
        for language, names in zip(LANGUAGES, headers, strict=True):
            for header in names:
                seed += 1
                yield kind, language, header, values(kind, language, header, seed)
