"""What the name of a column says it is about: words of English, German, French and Spanish headers.

The direct identifiers are the eighteen of the HIPAA privacy rule [1].

References
----------
.. [1] 45 CFR 164.514(b)(2); listed in Lasko 2007, fig. 1-1.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias

Group: TypeAlias = Literal[
    "identifier", "quasi", "sensitive", "weight", "household", "income", "count", "nominal", "ordinal"
]


@dataclass(frozen=True)
class Subject:
    """What a column may be about.

    label : for reasons
    group : what it suggests
    words : lower-case ASCII; one of at most five letters is a token of the name, a longer one may stand inside of it;
            words with a + are tokens that stand together
    hipaa : number in HIPAA's list, or 0
    """

    label: str
    group: Group
    words: tuple[str, ...]
    hipaa: int = 0


def _subject(label: str, group: Group, words: str, hipaa: int = 0) -> Subject:
    return Subject(label, group, tuple(words.split()), hipaa)


SUBJECTS: tuple[Subject, ...] = (
    _subject("name", "identifier", "name names surname lastname firstname forename givenname middlename maidenname "
             "fullname nachname vorname familienname geburtsname zuname nom prenom prenoms patronyme nombre nombres "
             "apellido apellidos nm nachn lname fname rufname patientenname kundenname spitzname username "
             "loginname nom+usage", 1),
    _subject("address", "identifier", "address adr addr street streetname housenumber house+no adresse anschrift "
             "strasse hausnummer hausnr rue voie domicile direccion calle domicilio latitude longitude lat lon lng gps "
             "geocode coordinates breitengrad laengengrad koordinaten coordonnees coordenadas latitud longitud", 2),
    _subject("telephone number", "identifier", "phone telephone tel mobile+number mobilenumber mobile cellphone "
             "phonenumber telefon handy handynummer mobilnummer rufnummer telefonnummer mobil portable telefono movil "
             "celular", 4),
    _subject("fax number", "identifier", "fax faxnumber facsimile telefax faxnummer telecopie telecopieur", 5),
    _subject("e-mail address", "identifier", "email e+mail mail emailaddress mailadresse courriel mel correo", 6),
    _subject("national identification number", "identifier", "ssn socialsecurity social+security "
             "sozialversicherungsnummer sozialversicherung svnr svnummer rentenversicherungsnummer rvnr steuerid "
             "steuernummer identifikationsnummer personalausweis ausweisnummer ausweis securitesociale numerosecu "
             "nir insee seguridadsocial nss dni nie nif nino nationalinsurance nationalid national+id taxid "
             "tax+id passport passportnumber reisepass passeport pasaporte carteidentite cedula pesel cpf curp bsn "
             "personnummer documentoidentidad seg+social matricule", 7),
    _subject("medical record number", "identifier", "mrn medicalrecord recordnumber record+no record+number "
             "chartnumber patientnumber patientennummer patientennr patnr fallnummer fallnr aktenzeichen aktennummer "
             "krankenakte dossier ipp historiaclinica nhc expediente", 8),
    _subject("health plan number", "identifier", "beneficiary memberid member+id membernumber policynumber policy+no "
             "policy+number insurancenumber insurance+number insurance+no healthplan subscriberid subscriber "
             "versichertennummer versichertennr versicherungsnummer krankenversicherungsnummer "
             "krankenversichertennummer kvnr numeroassure assure beneficiaire mutuelle adherent asegurado afiliado "
             "afiliacion poliza tarjetasanitaria beneficiario nhs assurance+maladie carte+vitale", 9),
    _subject("account number", "identifier", "account accountnumber acct iban konto kontonummer kontonr bankverbindung "
             "compte numerocompte rib cuenta numerocuenta creditcard cardnumber card+no card+number kreditkarte "
             "kartennummer cartebancaire numerocarte tarjetacredito numerotarjeta num+tarjeta bankkonto", 10),
    _subject("licence or certificate number", "identifier", "license licence driverslicense certificate "
             "certificatenumber fuehrerschein fuehrerscheinnummer approbation lizenz lizenznummer zertifikat "
             "zertifikatsnummer permis permisconduire certificat licencia licencias permiso+conducir carnet colegiado "
             "certificado", 11),
    _subject("vehicle number", "identifier", "vehicle vin plate licenseplate numberplate plates kennzeichen "
             "fahrzeugnummer fahrgestellnummer fahrzeugid fahrzeugident immatriculation plaque chassis vehicule "
             "matricula bastidor vehiculo kfz+kz kfz fahrzeug+nr placa placas car+reg reg+no "
             "registration+plate nummernschild", 12),
    _subject("device number", "identifier", "device deviceid serial serialnumber imei imsi macaddress mac+address "
             "geraetenummer geraeteid geraet seriennummer seriennr appareil numeroserie numero+serie numerodeserie "
             "dispositivo udi serie", 13),
    _subject("web address", "identifier", "url uri website webpage homepage webseite internetseite siteweb site+web "
             "sitioweb paginaweb pagina+web profileurl", 14),
    _subject("IP address", "identifier", "ip ipaddress ipaddr ip+address ipv4 ipv6 ipadresse adresseip "
             "direccionip", 15),
    _subject("biometric identifier", "identifier", "biometric biometrics fingerprint voiceprint retina irisscan faceid "
             "fingerabdruck stimmabdruck biometrie biometrisch empreinte empreintes vocale huella huellas biometria "
             "biometrico iris facial faciale face finger gesicht gesichtsscan rostro voice+print stimmprofil", 16),
    _subject("photograph", "identifier", "photo photos photograph picture image portrait selfie foto lichtbild "
             "passbild bilddatei photographie imagen fotografia retrato", 17),
    _subject("unique code", "identifier", "id ids uid uuid guid identifier kennung kennnummer identifiant "
             "identificador identificacion idnr personid pseudonym pseudonyme seudonimo subjectid participant", 18),
    _subject("household", "household", "household householdid hh hhid haushalt haushaltsnummer menage hogar familyid "
             "family+id foyer"),
    _subject("sample weight", "weight", "wgt wt fnlwgt pwgtp wgtp perwt hhwt wtmec wtint wtssall pweight sampleweight "
             "surveyweight samplingweight finalweight personweight designweight sample+weight survey+weight "
             "final+weight hochrechnungsfaktor gewichtungsfaktor hrf ponderation poids+sondage coefponderation "
             "factorexpansion factor+expansion ponderacion peso+muestral"),
    _subject("age", "quasi", "age ages xage agep ageyears age+group agegr ageband alter altersgruppe edad"),
    _subject("sex", "quasi", "sex gender geschlecht sexe genre sexo genero female male weiblich maennlich femme mujer"),
    _subject("date", "quasi", "date datum fecha dob birth birthdate birthday birthyear geburt geburtsdatum geburtstag "
             "geburtsjahr naissance datenaissance nacimiento fechanacimiento admission admitted discharge discharged "
             "aufnahme aufnahmedatum entlassung entlassungsdatum sterbedatum todesdatum deathdate sortie deces ingreso "
             "defuncion ymarr mmarr", 3),
    _subject("place", "quasi", "zip zipcode zip+code postcode postalcode postal plz postleitzahl codepostal cp "
             "codigopostal city town ort wohnort stadt gemeinde ville commune ciudad municipio poblacion localidad "
             "county kreis landkreis departement provincia comarca region regions state bundesland precinct district "
             "bezirk quartier distrito placesize ortsteil residence wohngebiet tract census+tract imd deprivation "
             "puma fips msa metro density smsa urban rural housing+type own+rent tenure", 2),
    _subject("origin", "quasi", "race rac1p rac2p rac3p hisp hispanic nativity ethnicity ethnic ethnie raza etnia "
             "nationality nationalitaet nationalite nacionalidad citizenship staatsangehoerigkeit country "
             "nativecountry land herkunft pays pais herkunftsland birthplace geburtsort lieunaissance lugarnacimiento "
             "migration"),
    _subject("family", "quasi", "marital maritalstatus familienstand situation+familiale etatcivil matrimonial "
             "estadocivil children kinder enfants hijos siblings relationship household+size haushaltsgroesse "
             "maritaux divorced msp mar married single widowed kids noc npf famsize hhsize"),
    _subject("education", "quasi", "education educ edu educdec schooling schl degree bildung schulabschluss abschluss "
             "diplome etudes educacion estudios eduspec qualification"),
    _subject("work", "quasi", "occupation job profession workclass employer employment beruf berufsgruppe metier "
             "profesion ocupacion empleo socprof socioeconomic hours+per+week working+hours arbeitszeit "
             "industry indp occp naics isco nace cow esr branche wirtschaftszweig"),
    _subject("language or religion", "quasi", "language languages sprache langue idioma religion konfession confession "
             "mothertongue muttersprache englang"),
    _subject("body measure that can be seen", "quasi", "height groesse koerpergroesse taille estatura altura weight "
             "gewicht koerpergewicht poids peso bmi eyecolor haircolor augenfarbe"),
    _subject("health", "sensitive", "diagnosis diagnose diagnostic diagnostico icd icd10 disease illness krankheit "
             "maladie enfermedad hiv cancer krebs symptom therapy therapie treatment tratamiento traitement drug drugs "
             "medication medikament medicament medicamento disability behinderung handicap discapacidad pregnant "
             "pregnancy schwanger enceinte embarazo depress depression mental smoke smoker raucher fumeur fumador "
             "alcohol alcabuse alcsol blood blut sang sangre lab hba1c status vital mortality allergy insulin "
             "disabled difficulty impairment dvet drem dphy deye dear dout ddrs"),
    _subject("income", "income", "income salary wage wages earnings pincp wagp hincp einkommen gehalt lohn revenu "
             "salaire ingresos salario sueldo renta"),
    _subject("money", "sensitive", "cost costs expense expenditure spending meddol charge charges claim payment debt "
             "asset tax capital kosten ausgaben cout depense coste gasto poverty povpip"),
    _subject("result or opinion", "sensitive", "grade grades score result finalresult result+final exam note noten "
             "zensur resultat notes nota calificacion resultado rating opinion trust party vote political crime "
             "conviction offence offense sexual orientation"),
    _subject("count", "count", "num number count nb anzahl anz nombre+de nofriend nociga cantidad numero hours visits "
             "attempts credits times days weeks months duration dur"),
    _subject("category", "nominal", "type kind category code class typ art kategorie categorie categoria tipo race "
             "ethnicity region marital occupation country wave status rac1p hisp hispanic msp mar indp occp industry "
             "naics isco nace cow esr puma fips msa zip zipcode plz postleitzahl housing+type own+rent tenure "
             "religion party branche"),
    _subject("ordered level", "ordinal", "level stage grade education educ edu rank band stufe niveau nivel annual "
             "decile quintile quartile percentile dvet schl satisfaction agree health+status class+year quality scale"),
)  # fmt: skip
"""In the order in which they are tried inside a group."""
_CODE = next(subject for subject in SUBJECTS if subject.hipaa == 18)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PEOPLE = _words(
    "patient pat subject person personal employee emp staff customer cust client user member student pupil case chart "
    "donor respondent citizen resident specimen sample proband probanden mitarbeiter kunde kunden nutzer schueler "
    "versicherten vers kv mitglied matrikel buerger steuer salarie etudiant eleve usager adherent agent secu paciente "
    "usuario cliente empleado alumno estudiante socio historia trabajador assure hadm encounter visitor fall akten"
)
NUMBERS = _words("id nbr ref no nr num number nummer numero n cod code key cle clave kennung kennziffer ident nummern")
"""A token of each makes a number that one person has: patient_no, Kundennummer, CodPaciente."""
THINGS = _words(
    "file drug hospital product school course module variable test medication ward department station company brand "
    "city town country region state street group type status balance flag category kind band class age year month day "
    "color colour size model version event item unit field column device medikament schule kurs stadt ort land kreis "
    "produit ecole ville pays medicament ciudad pais escuela producto rate ratio score level use usage used owner "
    "ownership has is access enfants hijos jours visites personnes"
)
"""Tokens beside which a general word such as *name*, *phone* or *account* is not about a person."""
GENERAL = _words(
    "nm face finger iris name names nom nombre nombres phone tel mobile mobil portable account device vehicle plate "
    "image picture mail license licence certificate subscriber id serial mac compte konto cuenta record participant"
)


def tokens(name: str) -> tuple[str, ...]:
    """The words of a column name, in lower case without accents: ``"dateNaissance_2"`` → date, naissance, 2."""
    for letter, plain in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss"), ("Ä", "Ae"), ("Ö", "Oe"), ("Ü", "Ue")):
        name = name.replace(letter, plain)
    flat = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", flat)
    return tuple(re.findall(r"[a-z]+|\d+", apart.lower()))


def subjects(name: str) -> list[Subject]:
    """What a column of this name may be about, direct identifiers first."""
    words = tokens(name)
    found = [subject for subject in SUBJECTS if any(_matches(word, words, subject.group) for word in subject.words)]
    return found if any(subject.hipaa == 18 for subject in found) or not _numbers_people(words) else [_CODE, *found]


def subjects_of_label(label: str) -> list[Subject]:
    """What a sentence says a column is about, by whole words or their beginnings; brackets are left out."""
    words = tokens(re.sub(r"\([^)]*\)?", " ", label))
    return [subject for subject in SUBJECTS if any(_begins(word, words) for word in subject.words)]


def _begins(word: str, words: tuple[str, ...]) -> bool:
    """Whether a word of a subject is one of these, or begins one; words with a + stand together."""
    if "+" in word:
        return _matches(word, words, "quasi")
    return word in words or (len(word) > 5 and any(one.startswith(word) for one in words))


def _numbers_people(words: tuple[str, ...]) -> bool:
    """Whether a name is a word for people and one for a number, apart or as a German compound."""
    apart = PEOPLE & set(words) and NUMBERS & set(words)
    joined = any(word.endswith(("nummer", "nr")) and word.startswith(tuple(PEOPLE)) for word in words)
    return bool(apart) or joined


def _matches(word: str, words: tuple[str, ...], group: Group) -> bool:
    """Whether a word of a subject is in the name."""
    if "+" in word:
        parts = word.split("+")
        return any(list(words[at : at + len(parts)]) == parts for at in range(len(words) - len(parts) + 1))
    compact = "".join(words)
    if word in words or word == compact:
        general = group == "identifier" and word in GENERAL and word != compact
        return not (general and THINGS & set(words))
    return len(word) > 5 and word in compact
