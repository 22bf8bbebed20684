"""Columns of each of HIPAA's eighteen kinds of identifiers, with headers of four languages and made-up values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from stdnum import iban, luhn
from stdnum.de import idnr
from stdnum.es import ccc, dni
from stdnum.fr import nir
from stdnum.iso7064 import mod_11_10

ROWS = 400
LANGUAGES = ("en", "de", "fr", "es")

Headers: TypeAlias = dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]]

HEADERS: Headers = {
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
MORE_HEADERS: Headers = {
    "1 names": (
        ("surname", "GIVEN_NM", "pt_full_name", "lname", "maiden_nm", "NameOfPatient"),
        ("Familienname", "Nachn", "Rufname", "Patientenname", "Zuname", "Name_Vorname"),
        ("nom_usage", "prenom_usuel", "nom_jeune_fille", "nom_naissance", "NomPrenom", "nom_marital"),
        (
            "nombre_completo",
            "apellido_paterno",
            "nombre_pila",
            "apellido_materno",
            "nombres_y_apellidos",
            "primer_nombre",
        ),
    ),
    "2 geography": (
        ("postcode", "home_addr", "census_tract", "street1", "zip5", "town_name"),
        ("Wohnanschrift", "Postleitzahl", "Gemeindekennziffer", "Ortsname", "PLZ_Wohnort", "Wohnadresse"),
        ("commune_residence", "cp_domicile", "adresse_postale", "code_commune", "rue_numero", "lieu_residence"),
        ("domicilio_actual", "cod_postal", "localidad", "colonia", "calle_numero", "municipio_residencia"),
    ),
    "3 dates": (
        ("dob", "BirthDt", "visit_date", "date_admitted", "DeathDate", "surgery_dt"),
        ("GebDat", "Eintrittsdatum", "Behandlungsbeginn", "Op_Datum", "Sterbetag", "Geburtstag"),
        ("dt_naiss", "date_entree", "date_admission", "date_hospitalisation", "jour_naissance", "date_operation"),
        ("fec_nac", "f_ingreso", "fecha_consulta", "fecha_cirugia", "fecha_fallecimiento", "fnacimiento"),
    ),
    "4 telephone": (
        ("cell", "contact_no", "ph_home", "tel_no", "emergency_contact_phone", "mobile_ph"),
        ("Tel_privat", "Mobiltelefon", "Festnetz", "Handy", "TelefonNr", "Telefon_dienstlich"),
        ("num_tel", "gsm", "tel_mobile", "telephone_fixe", "tel_portable", "no_telephone"),
        ("telf", "num_celular", "telefono_casa", "nro_telefono", "tfno", "celular_contacto"),
    ),
    "5 fax": (
        ("fax_home", "FAXNUM", "facsimile_no", "work_fax", "fax_nbr", "fax_line"),
        ("Faxnr", "Fax_Praxis", "Telefaxnummer", "Faxanschluss", "Fax_Nr", "Telefax_dienstlich"),
        ("no_fax", "numero_telecopie", "fax_bureau", "telecopieur_bureau", "fax_no", "num_telecopie"),
        ("fax_trabajo", "nro_fax", "telefax_num", "num_fax", "fax_oficina", "numero_telefax"),
    ),
    "6 e-mail": (
        ("mail_addr", "contact_email", "eml", "email_id", "work_mail", "EMAIL_ADDR"),
        ("Mail", "EMailAdresse", "Kontaktmail", "Email_dienstl", "Mail_Adr", "E_Post"),
        ("mel", "adr_courriel", "e_mail_perso", "courriel_pro", "mail_perso", "adresse_electronique"),
        ("correoe", "direccion_correo", "mail_contacto", "email_personal", "correo_e", "buzon_correo"),
    ),
    "7 social security": (
        ("nhs_no", "natl_insurance_no", "tin", "soc_sec_no", "SIN", "ni_number"),
        ("RVNR", "Steueridentifikationsnummer", "Personalausweisnr", "SV_Nummer", "Steuernr", "Passnummer"),
        ("num_ss", "insee_nir", "no_securite_soc", "num_insee", "numero_ss", "no_passeport"),
        ("nuss", "documento_identidad", "num_dni", "cedula_identidad", "nro_seguro_social", "num_pasaporte"),
    ),
    "8 medical record": (
        ("hosp_no", "chart_id", "pt_mrn", "med_rec_num", "hospital_number", "EMR_ID"),
        ("PatNr", "Krankenblattnummer", "Fall_ID", "Aufnahmenummer", "Patienten-ID", "Krankenaktennr"),
        ("nip_patient", "no_dossier_medical", "num_ipp", "numero_patient", "id_dossier", "num_sejour"),
        ("nro_historia", "expediente_clinico", "num_historia_clinica", "num_paciente", "id_historia", "episodio_id"),
    ),
    "9 health plan": (
        ("insured_id", "subscriber_no", "medicare_number", "plan_member_no", "ins_policy_id", "medicaid_id"),
        ("Versichertennr", "eGK_Nummer", "Kassennummer", "KV-Nummer", "Mitgliedsnr", "Versicherten_ID"),
        (
            "no_mutuelle",
            "num_assure_social",
            "carte_vitale",
            "num_beneficiaire",
            "numero_adherent_mutuelle",
            "id_assure",
        ),
        ("num_asegurado", "nro_afiliacion", "tarjeta_sanitaria_num", "id_beneficiario", "num_poliza", "cod_afiliado"),
    ),
    "10 account": (
        ("acct_no", "bank_acct", "debit_card_no", "bank_account_no", "cc_number", "acct_id"),
        ("Bankkonto", "KontoNr", "Kartennr", "Bankkontonummer", "Kreditkartennr", "IBAN_Nr"),
        ("no_compte_bancaire", "num_carte_bleue", "iban_client", "num_iban", "compte_bancaire", "no_carte_credit"),
        ("nro_cuenta", "cta_bancaria", "num_tarjeta_debito", "numero_tarjeta_credito", "iban_cuenta", "cuenta_num"),
    ),
    "11 licence": (
        ("dl_number", "nursing_license", "cert_no", "driver_lic_no", "licence_num", "medical_license_id"),
        ("Approbationsnummer", "FS_Nummer", "Lizenz_Nr", "Fuehrerschein_Nr", "Arztnummer_LANR", "Zulassungsnummer"),
        ("no_permis", "num_permis_conduire", "numero_adeli", "num_licence", "no_certificat", "permis_numero"),
        (
            "num_licencia",
            "carnet_conducir",
            "nro_colegiado",
            "licencia_conducir",
            "num_certificado",
            "cedula_profesional",
        ),
    ),
    "12 vehicle": (
        ("car_reg", "plate_no", "vehicle_vin", "registration_plate", "car_vin", "vehicle_plate"),
        ("Autokennzeichen", "FIN", "Kfz-Kennzeichen", "Nummernschild", "Fahrzeugkennzeichen", "Fahrzeug_Nr"),
        ("plaque_immat", "no_immatriculation", "vin_vehicule", "immat_vehicule", "plaque_auto", "numero_chassis"),
        ("placa", "num_matricula", "num_bastidor", "placa_vehiculo", "matricula_coche", "numero_bastidor"),
    ),
    "13 device": (
        ("pacemaker_serial", "dev_serial_no", "mac_addr", "implant_serial", "device_sn", "IMEI_no"),
        ("Geräte-Nr", "Implantat_Seriennr", "SerienNr", "Gerätekennung", "Seriennr_Implantat", "Schrittmacher_Nr"),
        ("no_serie_appareil", "id_dispositif", "num_serie", "serie_implant", "identifiant_appareil", "no_serie"),
        ("nro_serie", "id_dispositivo", "num_serie_equipo", "serie_dispositivo", "num_imei", "serial_equipo"),
    ),
    "14 web address": (
        ("profile_link", "web_url", "linkedin_url", "homepage_url", "personal_site", "facebook_link"),
        ("Internetadresse", "Webadresse", "Profil_URL", "Website_Adresse", "Link_Profil", "Homepage_Adr"),
        ("lien_profil", "adresse_web", "url_site", "site_internet", "lien_web", "page_web"),
        ("enlace_perfil", "direccion_web", "url_perfil", "pagina_personal", "url_web", "enlace_web"),
    ),
    "15 IP address": (
        ("remote_addr", "login_ip", "src_ip", "ip_addr", "last_ip", "IPv6_address"),
        ("IP_Adr", "Client-IP", "IPAdresse", "IP_Nummer", "Absender_IP", "ip_login"),
        ("ip_connexion", "adr_ip", "adresse_ipv4", "adresse_ip_client", "ip_source", "num_ip"),
        ("ip_acceso", "dir_ip", "ip_usuario", "direccion_ip_cliente", "ip_origen", "num_ip"),
    ),
    "16 biometric": (
        ("iris_code", "face_embedding", "finger_template", "fingerprint_hash", "voice_print", "retina_scan"),
        ("Gesichtsscan", "Irisscan", "Fingerabdruckcode", "Stimmprofil", "Handabdruck", "Biometriedaten"),
        (
            "gabarit_iris",
            "empreinte_doigt",
            "reconnaissance_faciale",
            "empreintes_digitales",
            "scan_iris",
            "donnees_biometriques",
        ),
        (
            "plantilla_facial",
            "huella_digital",
            "codigo_iris",
            "huellas_digitales",
            "reconocimiento_facial",
            "datos_biometricos",
        ),
    ),
    "17 photograph": (
        ("headshot", "face_img", "passport_photo", "photo_file", "patient_image", "mugshot"),
        ("Portraitfoto", "Bild_Datei", "Gesichtsfoto", "Fotodatei", "Bild_Patient", "Profilbild"),
        ("photo_identite", "fichier_photo", "image_visage", "photo_profil", "image_patient", "cliche_visage"),
        ("foto_carnet", "imagen_rostro", "archivo_foto", "foto_paciente", "fotografia_archivo", "imagen_perfil"),
    ),
    "18 unique code": (
        ("enrollment_no", "case_ref", "pseudo_id", "study_no", "participant_code", "respondent_key"),
        ("Fallkennung", "Pseudonym", "lfd_Nr", "Studien_ID", "Teilnehmernummer", "Probandennr"),
        ("code_patient", "num_inclusion", "cle_individu", "code_participant", "numero_etude", "id_anonyme"),
        ("codigo_unico", "folio", "clave_persona", "codigo_participante", "num_registro", "id_encuestado"),
    ),
}
"""Headers nobody had in mind when words were chosen, but for the first three of each, which chose the last words."""

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


def columns(headers: Headers = HEADERS) -> Iterator[tuple[str, str, str, Any]]:
    """Kind, language, header and values of every column."""
    seed = 0
    for kind, languages in headers.items():
        for language, names in zip(LANGUAGES, languages, strict=True):
            for header in names:
                seed += 1
                yield kind, language, header, values(kind, language, header, seed)
